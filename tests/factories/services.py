"""`up` with the real servers, on free ports and with its own storage root, and what runs there."""

import signal
import subprocess
import sys
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

from infra.processes import end
from infra.running_services import Up
from infra.settings import CHECKOUT
from tasks.tracking.orphaned_runs import VARIABLE
from tests.factories.cli import environment_for
from tests.factories.http import ask
from tests.factories.ports import free_port

SECONDS = 1200
"""How long a test waits for anything: some twenty times what a quiet machine needs."""

QUICK = {
    # How often the worker asks for runs, and how long a run waits for its turn: else 10 and 30 s.
    "PREFECT_WORKER_QUERY_SECONDS": "2",
    "PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "3",
    # Eight more processes of MLflow's server, for jobs that the pipeline does not use.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}
"""Settings that make the services quicker, not different."""

FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def wait(what: str, condition: Callable[[], Any]) -> Any:
    """The first true value of the condition.

    Raises:
        AssertionError: there is none before the deadline.
    """
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {SECONDS} s for {what}"
        time.sleep(0.3)
    return found


class Services:
    """`python -m infra.services` with one root and two ports."""

    def __init__(self, root: Path) -> None:
        ports = {
            "BIDAFLOW_PREFECT_PORT": str(free_port()),
            "BIDAFLOW_MLFLOW_PORT": str(free_port()),
        }
        self.root = root
        # PWD is what `make -C` leaves in it where it is called in another folder.
        self.environment = environment_for(root, PWD=str(root), **ports, **QUICK)
        self.process: subprocess.Popen[str] | None = None
        self.printed = ""

    def run(
        self, *words: str, module: str = "infra.services", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """A command in the environment of the services; its output and errors as text."""
        return subprocess.run(
            [sys.executable, "-m", module, *words],
            env={**self.environment, **variables},
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def up(self) -> None:
        """Start as `nohup` does, and wait for the last line that it prints."""
        self.process = subprocess.Popen(
            ["nohup", sys.executable, "-m", "infra.services", "up"],
            env=self.environment,
            cwd=CHECKOUT,
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
        """Stop as Ctrl-C does; the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=SECONDS)

    def clean_up(self) -> None:
        """Stop, and kill whatever uses this root still, such as Ray's processes of a killed run."""
        try:
            if self.is_up:
                self.interrupt()
        finally:
            if self.process is not None and self.process.stdout is not None:
                self.process.stdout.close()
            end(processes_with("BIDAFLOW_ROOT", str(self.root)), patience=15)

    @property
    def recorded(self) -> Up:
        return Up.model_validate_json((self.root / "services.json").read_text(encoding="utf-8"))

    def processes(self) -> list[psutil.Process]:
        """All processes of the services."""
        services = [psutil.Process(one.pid) for one in self.recorded.services.values()]
        return [p for one in services for p in (one, *one.children(recursive=True))]

    def deployment(self, name: str) -> dict[str, Any]:
        address = f"{self.recorded.prefect_url}/api/deployments/filter"
        found: list[dict[str, Any]] = ask("POST", address, {}).json()
        return next(one for one in found if one["name"] == name)

    def worker_is_online(self, since: datetime) -> bool:
        """Whether a worker has asked the server for work."""
        address = f"{self.recorded.prefect_url}/api/work_pools/local/workers/filter"
        try:
            workers = ask("POST", address, {}).raise_for_status().json()
        except (httpx.TransportError, httpx.HTTPStatusError):
            return False
        seen = [datetime.fromisoformat(worker["last_heartbeat_time"]) for worker in workers]
        return any(time > since for time in seen)


class Server:
    """The runs of deployment `retrain` on the servers, even while a server is restarting."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.api = f"{services.recorded.prefect_url}/api"
        self.retrain = services.deployment("retrain")["id"]

    def start(self, parameters: dict[str, Any]) -> str:
        """The id of a new run."""
        address = f"{self.api}/deployments/{self.retrain}/create_flow_run"

        def created() -> str | None:
            try:
                answer = ask("POST", address, {"parameters": parameters})
            except httpx.TransportError:
                return None
            assert answer.is_success, answer.text
            return str(answer.json()["id"])

        return str(wait("a new run", created))

    def runs(self, **filters: Any) -> list[dict[str, Any]]:
        """The runs of flow `retrain`, the newest first."""
        wanted = {"flows": {"name": {"any_": ["retrain"]}}, **filters}
        runs = ask("POST", f"{self.api}/flow_runs/filter", wanted).raise_for_status().json()
        return sorted(runs, key=lambda run: str(run["created"]), reverse=True)

    def newest(self) -> str:
        """The run that a person created last, by hand or by a form."""
        return next(str(run["id"]) for run in self.runs() if not run["auto_scheduled"])

    def run(self, run_id: str) -> dict[str, Any]:
        try:
            answer = ask("GET", f"{self.api}/flow_runs/{run_id}")
            run: dict[str, Any] = answer.raise_for_status().json()
            return run
        except (httpx.TransportError, httpx.HTTPStatusError):
            return {"state_type": "AWAY", "state_name": "Away"}

    def ended(self, run_id: str) -> str:
        """The name of the run's final state."""
        run = wait("the run's end", lambda: (r := self.run(run_id))["state_type"] in FINAL and r)
        return str(run["state_name"])

    def wait_for_training(self, run_id: str) -> None:
        """Wait until a run has trained for an epoch."""

        def is_training() -> bool:
            run = self.run(run_id)
            assert run["state_type"] not in FINAL, f"{run['state_name']}: {self.logs(run_id)}"
            return any(one.data.metrics.get("epoch", 0) >= 1 for one in self.mlflow_runs(run_id))

        wait("training", is_training)

    def wait_until_idle(self) -> None:
        """Wait until no run is under way, such as one that a schedule has started."""
        under_way = self.services.root / "under-way"
        wait("the end of all runs", lambda: not list(under_way.glob("*.json")))

    def logs(self, run_id: str) -> str:
        wanted = {"logs": {"flow_run_id": {"any_": [run_id]}}, "limit": 200}
        lines = ask("POST", f"{self.api}/logs/filter", wanted).json()
        return "\n".join(line["message"] for line in lines)

    def artifacts(self, run_id: str) -> dict[str, Any]:
        wanted = {"artifacts": {"flow_run_id": {"any_": [run_id]}}}
        found = ask("POST", f"{self.api}/artifacts/filter", wanted).json()
        return {artifact["key"]: artifact["data"] for artifact in found}

    def mlflow_runs(self, run_id: str, role: str = "variant") -> list[Run]:
        client = MlflowClient(f"sqlite:///{self.services.root}/mlflow.db")
        experiments = [one.experiment_id for one in client.search_experiments()]
        wanted = f"tags.`prefect.flow_run_id` = '{run_id}' and tags.`bidaflow.role` = '{role}'"
        return list(client.search_runs(experiments, wanted))


def left_by(run_id: str) -> list[str]:
    """The command lines of the processes that a run has started."""
    titles = []
    for process in processes_with(VARIABLE, run_id):
        with suppress(psutil.Error):
            titles.append(" ".join(process.cmdline()))
    return titles


def processes_with(variable: str, value: str) -> list[psutil.Process]:
    """The processes that were started with this value of an environment variable."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(variable) == value:
                found.append(process)
    return found
