"""Operation over months, in minutes: the UIs, a schedule that fires, services and runs killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psutil
import pytest
from mlflow.entities import Run
from mlflow.tracking import MlflowClient
from playwright.sync_api import Page, expect, sync_playwright

from infra.processes import Recorded
from infra.settings import CHECKOUT
from tasks.tiny import generate
from tasks.under_way import VARIABLE
from tests.asking import ask
from tests.infra.test_services import Services
from tests.integration.running import kill

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3600)]

SECONDS = 900
PAGE_SECONDS = 180
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    made = Services(tmp_path_factory.mktemp("operation"))
    made.up()
    try:
        yield made
    finally:
        made.end()


def write_articles(file: Path, first: int, last: int, part: int = 0) -> None:
    data = generate(3)[part]
    file.write_text(json.dumps({**data, "data": data["data"][first:last]}), encoding="utf-8")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of one's own, named as its test's folder is."""
    folder = tmp_path / f"own-{tmp_path.name.strip('_0').replace('_', '-')[-12:]}"
    folder.mkdir()
    write_articles(folder / "train-a.json", 0, 4)
    write_articles(folder / "dev.json", 0, 3, part=1)
    return folder


def parameters(folder: Path, epochs: int = 1) -> dict[str, Any]:
    return {
        "data": {"dataset": str(folder), "validation_share": 0},
        "variants": ["char"],
        "training": {"epochs": epochs, "hidden_size": 4},
        "resources": {"cpus_per_worker": 1},
    }


def wait(what: str, condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} took too long"
        time.sleep(0.5)
    return found


class Server:
    """The Prefect server as its API shows it, whether it has just been killed or not."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.api = f"{services.recorded.prefect_url}/api"
        self.retrain = services.deployment("retrain")["id"]

    def start(self, parameters: dict[str, Any]) -> str:
        """Create a run, as soon as the server answers again if it has just been killed."""
        address = f"{self.api}/deployments/{self.retrain}/create_flow_run"

        def made() -> str | None:
            try:
                answer = ask("POST", address, {"parameters": parameters})
            except httpx.TransportError:
                return None
            assert answer.is_success, answer.text
            return str(answer.json()["id"])

        return str(wait("a new run", made))

    def newest(self) -> str:
        """The run that was created last, by hand or by a form."""
        wanted = {"deployments": {"id": {"any_": [self.retrain]}}}
        runs = ask("POST", f"{self.api}/flow_runs/filter", wanted).json()
        by_hand = [run for run in runs if not run["auto_scheduled"]]
        return str(max(by_hand, key=lambda run: run["created"])["id"])

    def run(self, run_id: str) -> dict[str, Any]:
        try:
            answer = ask("GET", f"{self.api}/flow_runs/{run_id}")
            run: dict[str, Any] = answer.raise_for_status().json()
            return run
        except (httpx.TransportError, httpx.HTTPStatusError):
            return {"state_type": "AWAY", "state_name": "Away"}

    def ended(self, run_id: str) -> str:
        """The name of the run's final state."""
        run = wait("the run", lambda: (r := self.run(run_id))["state_type"] in ENDED and r)
        return str(run["state_name"])

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
        experiments = [each.experiment_id for each in client.search_experiments()]
        wanted = f"tags.`prefect.flow_run_id` = '{run_id}' and tags.`bidaflow.role` = '{role}'"
        return list(client.search_runs(experiments, wanted))


@pytest.fixture
def server(services: Services) -> Server:
    return Server(services)


@pytest.fixture
def page() -> Iterator[Page]:
    """A tab of the system's browser, headless."""
    if CHROMIUM is None:
        pytest.skip("the web pages need a browser: install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu"],
            timeout=PAGE_SECONDS * 1000,
        )
        tab = opened.new_page(viewport={"width": 1280, "height": 860})
        tab.set_default_timeout(PAGE_SECONDS * 1000)
        yield tab
        opened.close()


def test_a_person_starts_a_run_by_its_form_and_compares_it(
    services: Services, server: Server, page: Page, own: Path
) -> None:
    first = server.start(parameters(own))
    # The address of "Copy to new run": the form, filled with an earlier run's parameters.
    form = f"deployments/deployment/{server.retrain}/run?parameters="
    page.goto(f"{services.recorded.prefect_url}/{form}{quote(json.dumps(parameters(own)))}")
    label = page.locator(".schema-form-property__label", has_text="Hidden Size")
    field = page.locator(".p-label", has=label).last
    field.get_by_text("Width d of the model.").wait_for()
    field.locator("input").last.fill("0")
    page.get_by_role("button", name="Submit").click()
    field.get_by_text("not valid").wait_for()
    field.locator("input").last.fill("6")
    page.get_by_role("button", name="Submit").click()
    second = wait("the form's run", lambda: (run := server.newest()) != first and run)
    page.goto(f"{services.recorded.prefect_url}/runs/flow-run/{second}")
    assert [server.ended(run) for run in (first, second)] == ["Completed", "Completed"]
    page.get_by_text("Completed").first.wait_for()

    runs = [server.mlflow_runs(run)[0] for run in (first, second)]
    assert [run.data.params["hidden_size"] for run in runs] == ["4", "6"]
    assert {"results", "mlflow-char", "decision"} <= set(server.artifacts(second))
    # Lines reach the server in batches, the last ones maybe after the run's end.
    wait("the log", lambda: "char epoch 1: train nll" in server.logs(second))
    ids, experiment = [run.info.run_id for run in runs], runs[0].info.experiment_id
    mlflow = f"{services.recorded.mlflow_url}/#"
    page.goto(
        f"{mlflow}/compare-runs?runs={json.dumps(ids)}&experiments={json.dumps([experiment])}"
    )
    page.get_by_text("Comparing 2 Runs").wait_for()
    page.get_by_text("Parallel Coordinates Plot").first.wait_for()
    shown = expect(page.locator("body"))
    shown.to_contain_text("hidden_size", use_inner_text=True, timeout=PAGE_SECONDS * 1000)
    (parent,) = server.mlflow_runs(second, "parent")
    page.goto(f"{mlflow}/experiments/{experiment}/runs/{parent.info.run_id}/artifacts")
    page.get_by_text(f"{own.name}.html", exact=True).first.click()
    page.frame_locator("iframe").get_by_text("Question answering report").first.wait_for()


def test_a_schedule_finds_nothing_new_until_there_is_something(server: Server, own: Path) -> None:
    address = f"{server.api}/deployments/{server.retrain}/schedules"
    every = {"interval": 45, "timezone": "UTC"}
    schedule = {"schedule": every, "active": True, "parameters": parameters(own), "slug": "often"}
    (made,) = ask("POST", address, [schedule]).raise_for_status().json()

    def states() -> list[str]:
        wanted = {
            "deployments": {"id": {"any_": [server.retrain]}},
            "flow_runs": {"state": {"type": {"any_": list(ENDED)}}},
            "sort": "START_TIME_ASC",
        }
        runs = ask("POST", f"{server.api}/flow_runs/filter", wanted).json()
        of_own = [r for r in runs if r["parameters"]["data"]["dataset"] == str(own)]
        return [run["state_name"] for run in of_own]

    try:
        wait("the second run", lambda: len(states()) >= 2)
        assert states()[:2] == ["Completed", "Nothing to do"]
        known = len(states())
        write_articles(own / "train-b.json", 4, 8)
        wait("the run on new data", lambda: "Completed" in states()[known:])
    finally:
        ask("DELETE", f"{address}/{made['id']}").raise_for_status()


def test_what_breaks_is_tried_again_and_what_is_refused_is_not(server: Server, own: Path) -> None:
    assert server.ended(server.start(parameters(own / "nowhere"))) == "Refused"

    settle(server)
    stages = server.services.root / "stages"
    stages.mkdir(exist_ok=True)
    away = stages.rename(stages.with_name("away"))
    stages.write_text("in the way")
    run_id = server.start(parameters(own))
    wait("the failure", lambda: server.run(run_id)["state_name"] == "AwaitingRetry")
    stages.unlink()
    away.rename(stages)
    assert server.ended(run_id) == "Completed"


def in_training(server: Server, run_id: str) -> bool:
    return any(run.data.metrics.get("epoch", 0) >= 1 for run in server.mlflow_runs(run_id))


def left_by(run_id: str) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(VARIABLE) == run_id:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def settle(server: Server) -> None:
    """Let waiting schedules of other tests end."""
    wait("rest", lambda: not list((server.services.root / "under-way").glob("*.json")))


def test_a_second_start_waits_and_a_cancelled_run_leaves_nothing(server: Server, own: Path) -> None:
    settle(server)
    run_id = server.start(parameters(own, epochs=900))
    wait("training", lambda: in_training(server, run_id))
    second = server.start(parameters(own / "nowhere"))
    wait("its turn", lambda: server.run(second)["state_name"] == "AwaitingConcurrencySlot")
    assert server.run(run_id)["state_name"] == "Running"
    state = {"state": {"type": "CANCELLING"}}
    ask("POST", f"{server.api}/flow_runs/{run_id}/set_state", state).raise_for_status()
    assert server.ended(run_id) == "Cancelled"
    runs = [*server.mlflow_runs(run_id), *server.mlflow_runs(run_id, "parent")]
    wait("MLflow", lambda: {run.info.status for run in server.mlflow_runs(run_id)} == {"KILLED"})
    assert len(runs) == 2
    wait("Ray's end", lambda: not left_by(run_id))
    assert server.ended(second) == "Refused"  # its turn came


def test_what_a_killed_run_left_is_swept_by_the_next_start(server: Server, own: Path) -> None:
    settle(server)
    run_id = server.start(parameters(own, epochs=900))
    wait("training", lambda: in_training(server, run_id))
    note = server.services.root / "under-way" / f"{run_id}.json"
    os.kill(Recorded.model_validate_json(note.read_text()).pid, signal.SIGKILL)
    done = subprocess.run(
        [sys.executable, "-m", "flows.sweep"],
        env=server.services.environment,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not note.exists(), done.stderr
    assert {run.info.status for run in server.mlflow_runs(run_id)} == {"KILLED"}
    assert left_by(run_id) == []
    assert server.ended(run_id) == "Crashed"


def test_a_run_outlives_all_three_services(server: Server, own: Path) -> None:
    settle(server)
    epochs = 40
    run_id = server.start(parameters(own, epochs))
    wait("training", lambda: in_training(server, run_id))
    for name in ("mlflow", "worker", "prefect"):
        before = server.services.recorded.services[name]
        process = psutil.Process(before.pid)
        below = [] if name == "worker" else process.children(recursive=True)  # else the run itself
        kill([process, *below])

        def again(name: str = name, before: Recorded = before) -> bool:
            return server.services.recorded.services[name].pid != before.pid

        wait(name, again)
    assert server.ended(run_id) == "Completed", server.logs(run_id)
    (run,) = server.mlflow_runs(run_id)
    client = MlflowClient(f"sqlite:///{server.services.root}/mlflow.db")
    assert len(client.get_metric_history(run.info.run_id, "dev/f1")) == epochs
    assert server.ended(server.start(parameters(own, epochs))) == "Nothing to do"
