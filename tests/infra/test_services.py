"""`up` and `down` with the real servers, on ports and a root of their own."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from infra.running import Up
from infra.settings import CHECKOUT
from tests.asking import ANSWER_SECONDS, ask
from tests.integration.running import environment_for, kill
from tests.ports import free_port

pytestmark = pytest.mark.heavy

SECONDS = 400


class Services:
    """`python -m infra.services` with one root and two ports."""

    def __init__(self, root: Path) -> None:
        ports = {
            "BIDAFLOW_PREFECT_PORT": str(free_port()),
            "BIDAFLOW_MLFLOW_PORT": str(free_port()),
        }
        # PWD is what `make -C` leaves in it where it is called in another folder.
        self.root, self.environment = root, environment_for(root, PWD=str(root), **ports)
        self.process: subprocess.Popen[str] | None = None

    def command(self, word: str) -> list[str]:
        return [sys.executable, "-m", "infra.services", word]

    def run(self, word: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **variables}
        return subprocess.run(
            self.command(word),
            env=environment,
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def up(self) -> list[str]:
        """Start as `nohup` does, and wait for the last line; what was printed until then."""
        self.process = subprocess.Popen(
            ["nohup", *self.command("up")],
            env=self.environment,
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line.startswith("Stop "):
                return lines
        raise AssertionError("".join(lines))

    def end(self) -> None:
        """Stop as Ctrl-C does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=SECONDS)

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


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    made = Services(tmp_path_factory.mktemp("up"))
    made.printed = made.up()  # type: ignore[attr-defined]
    try:
        yield made
    finally:
        made.end()


def wait(condition: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_both_servers_answer_at_the_addresses_it_prints(services: Services) -> None:
    printed = "".join(services.printed)  # type: ignore[attr-defined]
    up = services.recorded
    assert up.prefect_url in printed and up.mlflow_url in printed
    assert httpx.get(up.prefect_url, follow_redirects=True, timeout=ANSWER_SECONDS).is_success
    assert "MLflow" in httpx.get(up.mlflow_url, timeout=ANSWER_SECONDS).text


def test_all_deployments_tell_what_they_do_and_retrain_has_its_week(services: Services) -> None:
    for name in (
        "ingest",
        "build-vocabulary",
        "train-embeddings",
        "judge-embeddings",
        "train",
        "compare-variants",
        "retrain",
    ):
        deployment = services.deployment(name)
        assert deployment["description"] and "bidaflow" in deployment["tags"]
        fields = deployment["parameter_openapi_schema"]["properties"].values()
        assert fields and all("description" in field or "$ref" in field for field in fields)
    retrain = services.deployment("retrain")
    (weekly,) = retrain["schedules"]
    assert (weekly["schedule"]["cron"], weekly["active"]) == ("0 3 * * 1", True)
    assert weekly["schedule"]["timezone"] == "Europe/London"
    assert retrain["global_concurrency_limit"]["limit"] == 1


@pytest.mark.parametrize(
    ("name", "nonsense", "told"),
    [
        ("train", {"variants": ["cahr"]}, "'cahr' is not one of"),
        ("train", {"training": {"dropout": 1}}, "1 is greater than the maximum of 0.99"),
        ("compare-variants", {"seeds": [0, -1]}, "-1 is less than the minimum of 0"),
        ("compare-variants", {"variants": []}, "variants"),
        ("train-embeddings", {"embedding": {"method": "word2vec"}}, "'word2vec' is not one of"),
        ("retrain", {"data": {"sede": 1}}, "'sede' was unexpected"),
        ("retrain", {"date": {"seed": 1}}, "'date' was unexpected"),
    ],
)
def test_nonsense_is_refused_before_there_is_a_run(
    services: Services, name: str, nonsense: dict[str, Any], told: str
) -> None:
    address = f"{services.recorded.prefect_url}/api/deployments/"
    address += f"{services.deployment(name)['id']}/create_flow_run"
    refused = ask("POST", address, {"parameters": nonsense})
    assert refused.status_code == 409 and told in refused.text


def test_runs_take_the_code_of_this_checkout_wherever_up_was_called(services: Services) -> None:
    (step,) = services.deployment("retrain")["pull_steps"]
    (where,) = step.values()
    assert where["directory"] == str(CHECKOUT) != services.environment["PWD"]


def test_it_outlives_the_terminal_that_it_was_started_from(services: Services) -> None:
    assert services.process is not None
    services.process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        services.process.wait(timeout=3)


def test_a_second_up_says_so_and_a_taken_port_is_named(services: Services, tmp_path: Path) -> None:
    again = services.run("up")
    assert again.returncode == 1 and "up already" in again.stderr
    elsewhere = services.run("up", BIDAFLOW_ROOT=str(tmp_path))
    port = services.environment["BIDAFLOW_PREFECT_PORT"]
    assert elsewhere.returncode == 1
    assert f"Port {port} is in use" in elsewhere.stderr
    assert "BIDAFLOW_PREFECT_PORT" in elsewhere.stderr


def test_a_flow_started_by_hand_finds_the_server(services: Services) -> None:
    code = "import flows, os; print(os.environ['PREFECT_API_URL'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=services.environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == f"{services.recorded.prefect_url}/api"


def schedules_of(deployment: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What people can set of a deployment's schedules, in a fixed order."""
    fields = ("slug", "active", "parameters", "schedule")
    return sorted(
        (tuple(one[field] for field in fields) for one in deployment["schedules"]), key=str
    )


def test_what_people_changed_stays_so_over_a_restart_and_ctrl_c_leaves_nothing(
    services: Services,
) -> None:
    def send(method: str, name: str, below: str, body: Any) -> None:
        address = f"{services.recorded.prefect_url}/api/deployments/"
        address += services.deployment(name)["id"] + below
        ask(method, address, body).raise_for_status()

    (weekly,) = services.deployment("retrain")["schedules"]
    edited = {"schedule": {"cron": "30 5 * * 2", "timezone": "Asia/Tokyo"}, "active": False}
    edited["parameters"] = {"data": {"dataset": "squad-v1.1"}}
    send("PATCH", "retrain", f"/schedules/{weekly['id']}", edited)
    send("POST", "retrain", "/schedules", [{"schedule": {"interval": 3600.0}, "active": False}])
    send("PATCH", "retrain", "", {"parameters": {"variants": ["char"]}})
    send("PATCH", "train", "", {"parameters": {"variants": ["char"]}})
    send("POST", "ingest", "/pause_deployment", None)
    before = services.deployment("retrain")

    processes = services.processes()
    services.end()
    assert services.process is not None and services.process.returncode == 0
    wait(lambda: not any(process.is_running() for process in processes))  # init reaps them
    assert not (services.root / "services.json").exists()
    memory = services.root / "deployments.json"
    sections = json.loads(memory.read_text(encoding="utf-8"))
    sections["train"]["parameters"] = "as if prefect.yaml had been edited since"
    memory.write_text(json.dumps(sections), encoding="utf-8")

    services.up()
    after = services.deployment("retrain")
    assert len(after["schedules"]) == 2 and schedules_of(after) == schedules_of(before)
    assert after["parameters"] == {"variants": ["char"]}
    assert after["global_concurrency_limit"]["limit"] == 1
    for field in ("id", "description", "entrypoint", "job_variables", "pull_steps", "tags"):
        assert after[field] == before[field]
    assert services.deployment("train")["parameters"] == {}
    assert services.deployment("ingest")["paused"] is True


def test_what_dies_is_started_again_and_what_a_kill_left_is_stopped(services: Services) -> None:
    before, killed = services.recorded.services, datetime.now(UTC)
    kill(services.processes())
    wait(
        lambda: all(one.pid != before[name].pid for name, one in services.recorded.services.items())
    )
    wait(lambda: services.worker_is_online(since=killed))

    processes = services.processes()
    assert services.process is not None
    services.process.kill()
    services.process.wait()
    assert services.run("down").stdout.strip() == "Stopped."
    wait(lambda: not any(process.is_running() for process in processes))  # init reaps them
    assert services.run("down").stdout.strip() == "Nothing is up."
