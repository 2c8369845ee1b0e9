"""The real services on free ports with their own storage root, and the runs on their servers."""

import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from infra.processes import ServicesRecord, end
from infra.settings import CHECKOUT
from tasks.tracking.life_cycle import VARIABLE
from tests.factories.cli import BIDAFLOW, SMALL_VECTORS, environment_for
from tests.factories.http import send_request
from tests.factories.ports import free_port

SECONDS = 1200
"""Time limit of each wait in a test: about twenty times what a quiet machine needs."""

QUICK = {
    # The poll interval of the worker and of a run that waits for a slot; by default 10 and 30 s.
    "PREFECT_WORKER_QUERY_SECONDS": "2",
    "PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "3",
}
"""Settings that speed the services up without changing their behaviour."""

NOTHING_TO_DO = "Nothing to do"
FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def wait(event: str, condition: Callable[[], Any]) -> Any:
    """Wait until the condition returns a true value, and return it.

    Raises:
        AssertionError: the condition is not met within `SECONDS`.
    """
    deadline = time.monotonic() + SECONDS
    while not (result := condition()):
        assert time.monotonic() < deadline, f"waited {SECONDS} s for {event}"
        time.sleep(0.3)
    return result


def parameters(
    dataset: Path, epochs: int = 1, hidden_size: int = 4, **others: Any
) -> dict[str, Any]:
    """Parameters of a run that tests the services, not the model."""
    return {
        "data": {"dataset": str(dataset), "validation_share": 0},
        "variants": ["char"],
        "training": {"epochs": epochs, "hidden_size": hidden_size},
        "vectors": {"source": SMALL_VECTORS},
        "resources": {"cpus_per_worker": 1},
        **others,
    }


class Services:
    """`bidaflow up` of a checkout, with one root and ports of its own."""

    def __init__(self, root: Path, command: str = BIDAFLOW, checkout: Path = CHECKOUT) -> None:
        self.command, self.checkout = command, checkout
        ports = {
            "BIDAFLOW_PREFECT_PORT": str(free_port()),
            "BIDAFLOW_MLFLOW_PORT": str(free_port()),
        }
        self.root = root
        # `make -C` called from another folder leaves PWD at that folder.
        self.environment = environment_for(root, PWD=str(root), **ports, **QUICK)
        self.process: subprocess.Popen[str] | None = None
        self.printed = ""

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `bidaflow` in the environment of the services; output and errors are text."""
        return subprocess.run(
            [self.command, *words],
            env={**self.environment, **variables},
            cwd=self.checkout,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def up(self) -> None:
        """Start the services under `nohup`, and wait for the last line of their startup output."""
        self.process = subprocess.Popen(
            ["nohup", self.command, "up"],
            env=self.environment,
            cwd=self.checkout,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        self.printed = ""
        for line in self.process.stdout:
            self.printed += line
            if line.startswith("Stop "):
                return
        raise AssertionError(self.printed)

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def interrupt(self) -> int:
        """Stop the services as Ctrl-C does; returns the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=SECONDS)

    def clean_up(self) -> None:
        """Stop, and kill processes that still use this root, such as Ray's after a killed run."""
        try:
            if self.is_up:
                self.interrupt()
        finally:
            if self.process is not None and self.process.stdout is not None:
                self.process.stdout.close()
            end(processes_with("BIDAFLOW_ROOT", str(self.root)), patience=15)

    @property
    def record(self) -> ServicesRecord:
        return ServicesRecord.model_validate_json(
            (self.root / "services.json").read_text(encoding="utf-8")
        )

    def processes(self) -> list[psutil.Process]:
        """All processes of the services, with their children."""
        services = [psutil.Process(service.pid) for service in self.record.services.values()]
        return [p for service in services for p in (service, *service.children(recursive=True))]

    def deployment(self, name: str) -> dict[str, Any]:
        url = f"{self.record.prefect_url}/api/deployments/filter"
        deployments: list[dict[str, Any]] = send_request("POST", url, {}).json()
        return next(deployment for deployment in deployments if deployment["name"] == name)

    def worker_is_online(self, since: datetime) -> bool:
        """Whether a worker has polled the server for work after `since`."""
        url = f"{self.record.prefect_url}/api/work_pools/local/workers/filter"
        try:
            workers = send_request("POST", url, {}).raise_for_status().json()
        except (httpx.TransportError, httpx.HTTPStatusError):
            return False
        seen = [datetime.fromisoformat(worker["last_heartbeat_time"]) for worker in workers]
        return any(time > since for time in seen)


class Server:
    """Access to the runs of deployment `retrain`; it tolerates a restart of the servers."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.api = f"{services.record.prefect_url}/api"
        self.retrain = services.deployment("retrain")["id"]

    def start(self, parameters: dict[str, Any]) -> str:
        """Create a run; returns its id."""
        url = f"{self.api}/deployments/{self.retrain}/create_flow_run"

        def created() -> str | None:
            try:
                response = send_request("POST", url, {"parameters": parameters})
            except httpx.TransportError:
                return None
            assert response.is_success, response.text
            return str(response.json()["id"])

        return str(wait("a new run", created))

    def runs(self, flow: str = "retrain") -> list[dict[str, Any]]:
        """The runs of a flow, newest first."""
        body = {"flows": {"name": {"any_": [flow]}}}
        runs = send_request("POST", f"{self.api}/flow_runs/filter", body).raise_for_status().json()
        return sorted(runs, key=lambda run: str(run["created"]), reverse=True)

    def newest(self, flow: str = "retrain") -> str | None:
        """The id of the newest run of a flow that was started by a person and not by a schedule."""
        runs = (str(run["id"]) for run in self.runs(flow) if not run["auto_scheduled"])
        return next(runs, None)

    def run(self, run_id: str) -> dict[str, Any]:
        try:
            response = send_request("GET", f"{self.api}/flow_runs/{run_id}")
            run: dict[str, Any] = response.raise_for_status().json()
            return run
        except (httpx.TransportError, httpx.HTTPStatusError):
            return {"state_type": "AWAY", "state_name": "Away"}

    def ended(self, run_id: str) -> str:
        """Wait until the run ends; returns the name of its final state."""
        run = wait("the run's end", lambda: (r := self.run(run_id))["state_type"] in FINAL and r)
        return str(run["state_name"])

    def outcome(self, run_id: str) -> str:
        """Wait until the run ends; returns its state, or "Refused" or "Nothing to do"."""
        self.ended(run_id)
        return outcome_of(self.run(run_id))

    def wait_for_training(self, run_id: str) -> None:
        """Wait until a run has trained for an epoch."""

        def is_training() -> bool:
            run = self.run(run_id)
            assert run["state_type"] not in FINAL, f"{run['state_name']}: {self.logs(run_id)}"
            runs = self.mlflow_runs(run_id)
            return any(run.data.metrics.get("epoch", 0) >= 1 for run in runs)

        wait("training", is_training)

    def wait_until_idle(self) -> None:
        """Wait until no run is under way, including those that a schedule started."""
        under_way = self.services.root / "under-way"
        wait("the end of all runs", lambda: not list(under_way.glob("*.json")))

    def logs(self, run_id: str) -> str:
        """All lines of a run's log."""
        filters = {"logs": {"flow_run_id": {"any_": [run_id]}}}
        lines: list[str] = []
        while page := self._lines({**filters, "offset": len(lines)}):
            lines += page
        return "\n".join(lines)

    def _lines(self, filters: dict[str, Any]) -> list[str]:
        """A page of log lines, of which the server sends at most 200 at a time."""
        response = send_request("POST", f"{self.api}/logs/filter", filters).raise_for_status()
        return [line["message"] for line in response.json()]

    def artifacts(self, run_id: str) -> dict[str, Any]:
        return {artifact["key"]: artifact["data"] for artifact in self._artifacts(run_id)}

    def descriptions(self, run_id: str) -> list[str]:
        """What the run's artifacts are, in words."""
        return [artifact["description"] for artifact in self._artifacts(run_id)]

    def _artifacts(self, run_id: str) -> list[dict[str, Any]]:
        filters = {"artifacts": {"flow_run_id": {"any_": [run_id]}}}
        url = f"{self.api}/artifacts/filter"
        artifacts: list[dict[str, Any]] = send_request("POST", url, filters).json()
        return artifacts

    def task_runs(self, run_id: str) -> list[dict[str, Any]]:
        filters = {"flow_runs": {"id": {"any_": [run_id]}}}
        url = f"{self.api}/task_runs/filter"
        task_runs: list[dict[str, Any]] = send_request("POST", url, filters).json()
        return task_runs

    def mlflow_runs(self, run_id: str, role: str = "variant") -> list[Run]:
        client = MlflowClient(f"sqlite:///{self.services.root}/mlflow.db")
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        query = f"tags.`prefect.flow_run_id` = '{run_id}' and tags.`bidaflow.role` = '{role}'"
        return list(client.search_runs(experiments, query))


def outcome_of(run: dict[str, Any]) -> str:
    """The state of an ended run, or the word for it that its message begins with."""
    message = run["state"]["message"] or ""
    words = (word for word in ("Refused", NOTHING_TO_DO) if message.startswith(f"{word}: "))
    return next(words, str(run["state_name"]))


def command_lines_of(run_id: str) -> list[str]:
    """The command lines of the running processes that a flow run started."""
    command_lines = []
    for process in processes_with(VARIABLE, run_id):
        with suppress(psutil.Error):
            command_lines.append(" ".join(process.cmdline()))
    return command_lines


def processes_with(variable: str, value: str) -> list[psutil.Process]:
    """The processes that were started with this value of an environment variable."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(variable) == value:
                processes.append(process)
    return processes
