"""Operation over months, in minutes: the UIs, a schedule that fires, services and runs killed."""

import json
import signal
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from playwright.sync_api import Browser

from infra.processes import ProcessRecord
from tasks.datasets.tiny import generate
from tests.factories.browser import new_tab
from tests.factories.cli import kill, write_dataset
from tests.factories.http import send_request
from tests.factories.services import (
    FINAL,
    NOTHING_TO_DO,
    Server,
    Services,
    command_lines_of,
    outcome_of,
    parameters,
    wait,
)

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3600)]

LONG = 1000
"""Epochs of a training that does not end before its test ends it."""


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


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the data that the tests in `make test` share."""
    return write_dataset(tmp_path_factory.mktemp("data") / "shared", train=6, contexts=10)


def flags(parameters: dict[str, Any]) -> list[str]:
    """The parameters as the command line takes them."""
    words = [f"--variants={','.join(parameters['variants'])}"]
    for group in ("data", "training", "vectors", "resources"):
        for name, value in parameters[group].items():
            words += [f"--{group}.{name.replace('_', '-')}", str(value)]
    return words


@pytest.fixture
def server(services: Services) -> Server:
    return Server(services)


@dataclass(frozen=True)
class Runs:
    """Two runs of one dataset by their ids in Prefect."""

    killed: str
    finished: str


@pytest.fixture(scope="module")
def runs(services: Services, dataset: Path) -> Runs:
    """A run that was killed in training, and the next one, which a person started by hand.

    `bidaflow up` is killed with all of its services: they would clean up after the killed run.
    """
    server = Server(services)
    killed = server.start(parameters(dataset, LONG, hidden_size=6))
    server.wait_for_training(killed)
    file = services.root / "under-way" / f"{killed}.json"
    process = psutil.Process(ProcessRecord.model_validate_json(file.read_text()).pid)
    assert len(command_lines_of(killed)) > 1  # Ray's processes, too
    assert services.process is not None
    services.process.kill()
    kill(services.processes())  # the run is one of the worker's processes
    assert psutil.wait_procs([process], timeout=60)[1] == []
    services.up()
    done = services.run("retrain", *flags(parameters(dataset)))
    assert done.returncode == 0, done.stdout + done.stderr
    finished = server.newest()
    assert finished is not None
    return Runs(killed, finished)


def test_next_start_cleans_up_after_a_killed_run(server: Server, runs: Runs) -> None:
    assert server.run(runs.killed)["state_name"] == "Crashed"
    assert {run.info.status for run in server.mlflow_runs(runs.killed)} == {"KILLED"}
    assert command_lines_of(runs.killed) == []
    assert not list((server.services.root / "under-way").glob("*.json"))


def test_manual_flow_uses_the_running_server(server: Server, runs: Runs) -> None:
    run = server.run(runs.finished)
    assert run["state_name"] == "Completed" and run["deployment_id"] is None
    assert {"results", "mlflow-char", "decision"} <= set(server.artifacts(runs.finished))
    assert str(run["state"]["message"]).startswith("Version 1 (char) ")
    names = {task["name"] for task in server.task_runs(runs.finished)}
    assert {"train char · seed 0", "encode train", "score char"} <= names
    # Lines reach the server in batches, the last ones maybe after the run's end.
    wait("the log", lambda: "char epoch 1: train nll" in server.logs(runs.finished))


@pytest.mark.browser
@pytest.mark.full
def test_run_started_from_the_form_repeats_nothing(
    services: Services, server: Server, chromium: Browser, runs: Runs, dataset: Path
) -> None:
    page = new_tab(chromium, 1280, 860)
    # The URL of "Copy to new run": the form, filled with an earlier run's parameters.
    form = f"deployments/deployment/{server.retrain}/run?parameters="
    copied = json.dumps(parameters(dataset, hidden_size=6))
    page.goto(f"{services.record.prefect_url}/{form}{quote(copied)}")
    label = page.locator(".schema-form-property__label", has_text="Hidden size")
    field = page.locator(".p-label", has=label).last
    field.get_by_text("Hidden size of all layers (d in the BiDAF paper).").wait_for()
    field.locator("input").last.fill("0")
    page.get_by_role("button", name="Submit").click()
    page.get_by_text("0 is less than the minimum of 1").first.wait_for()
    field.locator("input").last.fill("4")

    def submitted() -> str | None:
        """The form's run; the click is repeated if the form still had the invalid number."""
        button = page.get_by_role("button", name="Submit")
        if button.is_visible() and button.is_enabled():
            button.click()
        page.wait_for_timeout(5_000)
        run = server.newest()
        return run if run != runs.finished else None

    started = wait("the form's run", submitted)

    (parent,) = server.mlflow_runs(runs.finished, "parent")
    run = f"experiments/{parent.info.experiment_id}/runs/{parent.info.run_id}"
    page.goto(f"{services.record.mlflow_url}/#/{run}/artifacts")
    page.get_by_text("report.html", exact=True).first.click()
    page.frame_locator("iframe").get_by_text("Question answering report").first.wait_for()

    # With the number of the form, the run is the same as the finished one.
    page.goto(f"{services.record.prefect_url}/runs/flow-run/{started}")
    assert server.outcome(started) == NOTHING_TO_DO
    page.get_by_text("Nothing to do").first.wait_for()
    # The list of the deployment's runs shows it, too.
    page.goto(f"{services.record.prefect_url}/deployments/deployment/{server.retrain}?tab=Runs")
    page.get_by_text(str(server.run(started)["name"])).first.wait_for()


def test_second_run_waits_and_cancelled_run_cleans_up(server: Server, dataset: Path) -> None:
    server.wait_until_idle()
    both = {"variants": ["baseline", "char"]}
    run_id = server.start(parameters(dataset, LONG, hidden_size=5) | both)
    server.wait_for_training(run_id)
    second = server.start(parameters(dataset / "nowhere"))
    waiting = "AwaitingConcurrencySlot"
    wait("its turn", lambda: server.run(second)["state_name"] == waiting)
    assert server.run(run_id)["state_name"] == "Running"
    state = {"state": {"type": "CANCELLING"}}
    send_request("POST", f"{server.api}/flow_runs/{run_id}/set_state", state).raise_for_status()
    assert server.ended(run_id) == "Cancelled"
    runs = [*server.mlflow_runs(run_id), *server.mlflow_runs(run_id, "parent")]
    wait("MLflow", lambda: {run.info.status for run in server.mlflow_runs(run_id)} == {"KILLED"})
    assert len(runs) == 3
    wait("Ray's end", lambda: not command_lines_of(run_id))
    assert server.outcome(second) == "Refused"  # its turn came
    assert {run.info.status for run in server.mlflow_runs(run_id, "parent")} == {"KILLED"}
    wait("the log", lambda: "Cancelled: all its processes have ended" in server.logs(run_id))
    assert not any(words in server.logs(run_id) for words in ("NoneType", "out of memory"))

    def cancelled() -> set[str]:
        return {t["name"] for t in server.task_runs(run_id) if t["state_name"] == "Cancelled"}

    trainings = {f"train {name} · seed 0" for name in ("baseline", "char")}
    wait("the cancelled trainings", lambda: cancelled() == trainings)
    assert all(text.endswith(", cancelled") for text in server.descriptions(run_id))


@pytest.mark.full
def test_schedule_does_nothing_until_data_changes(server: Server, own: Path) -> None:
    url = f"{server.api}/deployments/{server.retrain}/schedules"
    every = {"interval": 45, "timezone": "UTC"}
    schedule = {"schedule": every, "active": True, "parameters": parameters(own), "slug": "often"}
    (created,) = send_request("POST", url, [schedule]).raise_for_status().json()

    def states() -> list[str]:
        filters = {
            "deployments": {"id": {"any_": [server.retrain]}},
            "flow_runs": {"state": {"type": {"any_": list(FINAL)}}},
            "sort": "START_TIME_ASC",
        }
        runs = send_request("POST", f"{server.api}/flow_runs/filter", filters).json()
        own_runs = [r for r in runs if r["parameters"].get("data", {}).get("dataset") == str(own)]
        return [outcome_of(run) for run in own_runs]

    try:
        wait("the second run", lambda: len(states()) >= 2)
        assert states()[:2] == ["Completed", NOTHING_TO_DO]
        known = len(states())
        write_articles(own / "train-b.json", 4, 8)
        wait("the run on new data", lambda: "Completed" in states()[known:])
        # What the switch of Prefect's V2 pages sends: the schedule loses its parameters.
        send_request("PATCH", f"{url}/{created['id']}", {"active": True}).raise_for_status()

        def lost() -> dict[str, Any] | None:
            ended = [run for run in server.runs() if run["state_type"] in FINAL]
            # Those of the deployment, which are without data, are left.
            return next((run for run in ended if "data" not in run["parameters"]), None)

        assert outcome_of(wait("a run without data", lost)) == "Refused"
    finally:
        send_request("DELETE", f"{url}/{created['id']}").raise_for_status()


@pytest.mark.full
def test_retries_failures_but_not_user_errors(server: Server, own: Path) -> None:
    assert server.outcome(server.start(parameters(own / "nowhere"))) == "Refused"

    server.wait_until_idle()
    stages = server.services.root / "stages"
    stages.mkdir(exist_ok=True)
    away = stages.rename(stages.with_name("away"))
    stages.write_text("in the way")
    run_id = server.start(parameters(own))
    wait("the failure", lambda: server.run(run_id)["state_name"] == "AwaitingRetry")
    stages.unlink()
    away.rename(stages)
    assert server.ended(run_id) == "Completed"


def states(services: Services) -> set[str]:
    """The states of all flow runs and tasks in Prefect's database, while no server runs."""
    query = "SELECT state_type FROM flow_run UNION SELECT state_type FROM task_run"
    with closing(sqlite3.connect(services.root / "prefect" / "prefect.db")) as database:
        return {state for (state,) in database.execute(query)}


@pytest.mark.full
def test_down_ends_and_names_the_runs(services: Services, dataset: Path) -> None:
    """One that the worker started, and one in a terminal."""
    server = Server(services)
    server.wait_until_idle()
    run_id = server.start(parameters(dataset, LONG, hidden_size=7))
    server.wait_for_training(run_id)
    arguments = flags(parameters(dataset, LONG, hidden_size=8))
    in_terminal = subprocess.Popen(
        [services.command, "train", *arguments],
        env=services.environment,
        cwd=services.checkout,
        stderr=subprocess.PIPE,
        text=True,
    )
    other = str(wait("the other run", lambda: server.newest("train")))
    server.wait_for_training(other)
    processes = services.processes()
    done = services.run("down")
    first, *ending, last = done.stdout.splitlines()
    assert (first, last) == ("Stopping …", "Stopped."), done.stdout + done.stderr
    for flow in ("retrain", "train"):
        resume = f"It resumes with: bidaflow {flow} --data.dataset {dataset}"
        assert any(line.startswith(f"Ending {flow} ") and resume in line for line in ending), ending
    _, errors = in_terminal.communicate(timeout=300)
    assert in_terminal.returncode == 1 and "Cancelled. Started again" in errors
    assert services.process is not None and services.process.wait(timeout=300) == 0
    wait("the end", lambda: not any(p.is_running() for p in processes))  # init reaps them
    for ended in (run_id, other):
        assert command_lines_of(ended) == []
        assert {run.info.status for run in server.mlflow_runs(ended)} == {"KILLED"}
    assert not {"RUNNING", "CANCELLING", "PENDING"} & states(services)
    assert not list((services.root / "under-way").iterdir())
    assert services.run("down").stdout.strip() == "Nothing is running."


@pytest.fixture
def running(services: Services) -> Services:
    """The services, started again after a test that has ended them."""
    if not services.is_up:
        services.up()
    return services


@pytest.mark.parametrize(
    "name",
    [
        "mlflow",
        pytest.param("prefect", marks=pytest.mark.full),
        pytest.param("worker", marks=pytest.mark.full),
    ],
)
def test_death_of_a_service_ends_up(running: Services, name: str) -> None:
    services = running
    processes, process = services.processes(), services.process
    assert process is not None and process.stdout is not None
    kill([psutil.Process(services.record.services[name].pid)])
    assert process.wait(timeout=300) == 1
    log = services.root / "logs" / f"{name}.log"
    *tail, message = process.stdout.read().rstrip().splitlines()
    assert message == f"{name} ended with status -9. Full log: {log}"
    assert tail[-1] in log.read_text(encoding="utf-8").splitlines()
    wait("the end", lambda: not any(p.is_running() for p in processes))  # init reaps them
    assert not (services.root / "services.json").exists()


def test_down_stops_what_a_killed_up_left(running: Services) -> None:
    """Runs last, because it stops the services."""
    services = running
    assert services.process is not None
    services.process.send_signal(signal.SIGHUP)  # the end of its terminal ends nothing
    processes = services.processes()
    services.process.kill()
    services.process.wait()
    assert services.run("down").stdout.split() == ["Stopping", "…", "Stopped."]
    wait("the end", lambda: not any(p.is_running() for p in processes))  # init reaps them
    assert services.run("down").stdout.strip() == "Nothing is running."
