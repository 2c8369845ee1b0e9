"""`up` and `down` with the real servers: what they print, deploy, reject and preserve."""

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from rich.cells import cell_len

from infra.errors import UserError
from infra.processes import ServicesRecord, record_process
from infra.services import supervisor
from infra.services.supervisor import (
    Service,
    wait_for_all,
    wait_for_started_server,
)
from infra.settings import CHECKOUT
from tests.factories.cli import environment_for
from tests.factories.http import ANSWER_SECONDS, send_request
from tests.factories.ports import free_port
from tests.factories.services import Services, wait

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3600)]


SERVICES = ("prefect", "mlflow", "worker")


def test_servers_answer_at_printed_urls_and_log(services: Services) -> None:
    prefect, mlflow = services.record.prefect_url, services.record.mlflow_url
    assert prefect in services.printed and mlflow in services.printed
    assert httpx.get(prefect, follow_redirects=True, timeout=ANSWER_SECONDS).is_success
    assert "MLflow" in httpx.get(mlflow, timeout=ANSWER_SECONDS).text
    assert all((services.root / "logs" / f"{name}.log").stat().st_size for name in SERVICES)


def test_prefects_pages_load_nothing_from_elsewhere(services: Services) -> None:
    answer = httpx.get(services.record.prefect_url, timeout=ANSWER_SECONDS)
    sources = answer.headers["content-security-policy"].removeprefix("default-src ").split()
    hosts = {urlsplit(source).hostname for source in sources if "//" in source}
    assert "'self'" in sources and hosts == {"127.0.0.1", "localhost"}


def test_pages_of_other_sites_can_not_use_the_servers(services: Services) -> None:
    """They could start flow runs with commands of their own."""
    prefect = services.record.prefect_url

    def answer(url: str, **headers: str) -> httpx.Response:
        return httpx.get(url, headers=headers, timeout=ANSWER_SECONDS)

    allowed, health = "access-control-allow-origin", f"{prefect}/api/health"
    assert answer(health, Origin=prefect).headers[allowed] == prefect
    assert allowed not in answer(health, Origin="http://other.example").headers
    assert answer(health, Host="other.example").status_code == 400
    runs = f"{services.record.mlflow_url}/api/2.0/mlflow/experiments/search?max_results=1"
    assert answer(runs).status_code == 200
    assert answer(runs, Host="other.example").status_code == 403


def test_mlflow_elsewhere_is_not_started_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIDAFLOW_MLFLOW_PORT", "5001")
    for uri, starts in (
        ("", True),
        ("sqlite:////tmp/own.db", True),
        ("http://127.0.0.1:5001", True),
        ("http://127.0.0.1:5002", False),
        ("https://mlflow.example.org", False),
    ):
        monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", uri)
        assert ("mlflow" in [service.name for service in supervisor.services()]) == starts, uri


def test_waits_for_the_server_that_up_starts(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    serve = f"{sys.executable} -m http.server {port} --bind 127.0.0.1 --directory {root}"
    starting = subprocess.Popen(["sh", "-c", f"sleep 1; exec {serve}"], stderr=subprocess.DEVNULL)
    supervising = record_process(starting.pid)
    ServicesRecord(supervisor=supervising, services={}, prefect_url=url, mlflow_url=url).write()
    wait_for_started_server("http://127.0.0.1:1/api")
    assert capsys.readouterr().err == "", "another server is not waited for"
    wait_for_started_server(f"{url}/api")
    assert httpx.get(url).is_success
    assert "Waiting for the Prefect server" in capsys.readouterr().err
    starting.terminate()
    starting.wait()


def test_waits_no_longer_than_up_lives(root: Path) -> None:
    url, starting = f"http://127.0.0.1:{free_port()}", subprocess.Popen(["sleep", "1"])
    supervising = record_process(starting.pid)
    ServicesRecord(supervisor=supervising, services={}, prefect_url=url, mlflow_url=url).write()
    wait_for_started_server(f"{url}/api")
    assert starting.poll() == 0, "until then, it has waited"


def status_with_answers(services: Services) -> str | None:
    """The output of `status`; None if a busy server did not answer within its three seconds."""
    done = services.run("status", COLUMNS="80")
    assert done.returncode == 0, done.stderr
    unanswered = "not responding" in done.stdout or "request to Prefect failed" in done.stdout
    return None if unanswered else done.stdout


def test_status_shows_the_running_services(services: Services) -> None:
    printed = wait("all servers' answers", lambda: status_with_answers(services))
    root, *others = printed.splitlines()
    assert root == f"Root       {services.root}"
    assert len(others) < 23 and max(map(cell_len, others)) <= 80
    assert re.search(r"^Next run   retrain, Mon \S+ 03:00 Europe/London$", printed, re.MULTILINE)
    assert "It will be refused, because its schedule has no dataset." in printed
    rows = [line.replace("│", " ").split() for line in printed.splitlines()]
    record = services.record
    urls = {"prefect": [record.prefect_url], "mlflow": [record.mlflow_url]}
    for name, process in record.services.items():
        assert [name, "running", str(process.pid), *urls.get(name, [])] in rows


def test_idle_services_are_six_processes_in_1200_mb(services: Services) -> None:
    assert services.process is not None
    processes = [psutil.Process(services.process.pid), *services.processes()]
    assert len(processes) <= 6, [p.cmdline() for p in processes]
    shares = [process.memory_full_info().pss / 1e6 for process in processes]
    assert sum(shares) < 1200, shares


def test_deployments_are_described_and_scheduled(services: Services) -> None:
    for name in (
        "ingest",
        "train-embeddings",
        "evaluate-embeddings",
        "evaluate-model",
        "predict",
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


TINY = {"data": {"dataset": "tiny"}}


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("train", TINY | {"variants": ["cahr"]}, "'cahr' is not one of"),
        ("train", TINY | {"training": {"dropout": 1}}, "1 is greater than the maximum of 0.99"),
        (
            "compare-variants",
            {"data": [TINY["data"]], "seeds": [0, -1]},
            "-1 is less than the minimum of 0",
        ),
        ("compare-variants", {"data": [TINY["data"]], "variants": []}, "variants"),
        (
            "train-embeddings",
            {"embedding": {"method": "word2vec"}},
            "'word2vec' is not one of",
        ),
        ("retrain", {"data": {"dataset": "tiny", "sede": 1}}, "'sede' was unexpected"),
        ("retrain", TINY | {"date": {"seed": 1}}, "'date' was unexpected"),
        ("retrain", {"data": {}}, "'dataset' is a required property"),
        # Prefect's "Quick run" sends no parameters.
        *(
            (name, {}, "'data' is a required property")
            for name in ("retrain", "train", "compare-variants", "ingest")
        ),
    ],
)
def test_rejects_invalid_parameters_before_a_run(
    services: Services, name: str, parameters: dict[str, Any], message: str
) -> None:
    deployment = services.deployment(name)["id"]
    url = f"{services.record.prefect_url}/api/deployments/{deployment}/create_flow_run"
    response = send_request("POST", url, {"parameters": parameters})
    assert response.status_code == 409 and message in response.text


def test_runs_use_this_checkout_from_any_directory(services: Services) -> None:
    (step,) = services.deployment("retrain")["pull_steps"]
    (where,) = step.values()
    assert where["directory"] == str(CHECKOUT) != services.environment["PWD"]


def test_reports_a_second_up_and_a_busy_port(services: Services, tmp_path: Path) -> None:
    second = services.run("up")
    assert second.returncode == 1 and "already running" in second.stderr
    elsewhere = services.run("up", BIDAFLOW_ROOT=str(tmp_path))
    port = services.environment["BIDAFLOW_PREFECT_PORT"]
    assert elsewhere.returncode == 1
    assert f"Port {port} is in use" in elsewhere.stderr
    assert "BIDAFLOW_PREFECT_PORT" in elsewhere.stderr


def test_edits_survive_restart_and_ctrl_c_stops_all(services: Services) -> None:
    before = services.deployment("retrain")
    (weekly,) = before["schedules"]
    edited = {"schedule": {"cron": "30 5 * * 2", "timezone": "Asia/Tokyo"}, "active": False}
    edited["parameters"] = {"data": {"dataset": "squad-v1.1"}}
    url = f"{services.record.prefect_url}/api/deployments/{before['id']}"
    send_request("PATCH", f"{url}/schedules/{weekly['id']}", edited).raise_for_status()
    changed = {"parameters": {"variants": ["char"]}}
    send_request("PATCH", url, changed).raise_for_status()

    processes = services.processes()
    assert services.interrupt() == 0
    wait("the end", lambda: not any(p.is_running() for p in processes))  # init reaps them
    assert not (services.root / "services.json").exists()

    services.up()
    after = services.deployment("retrain")
    (schedule,) = after["schedules"]
    assert schedule | edited | {"schedule": schedule["schedule"]} == schedule
    assert schedule["schedule"] | edited["schedule"] == schedule["schedule"]
    assert after["parameters"] == changed["parameters"]
    assert after["global_concurrency_limit"]["limit"] == 1
    for field in ("id", "description", "entrypoint", "job_variables", "pull_steps", "tags"):
        assert after[field] == before[field]


def test_start_says_when_each_server_is_ready(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow, _ = waiting = [Service(n, ["sleep", "60"], lambda: True) for n in SERVICES[:2]]
    slow.is_ready = lambda: slow.age > 1
    for service in waiting:
        service.start()
    try:
        wait_for_all(waiting)
    finally:
        for service in waiting:
            service.process.kill()
            service.process.wait()
    ready = [re.sub(r"\d+", "N", line) for line in capsys.readouterr().out.splitlines()]
    assert ready == ["  mlflow is ready after N s", "  prefect is ready after N s"]


def test_server_that_ends_is_named(root: Path) -> None:
    service = Service("mlflow", [sys.executable, "-c", "print('why'); exit(3)"], lambda: False)
    service.start()
    with pytest.raises(UserError, match=r"^why\nmlflow ended with status 3. Full log: "):
        wait_for_all([service])


@pytest.mark.parametrize(
    "end", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.full)]
)
def test_temporary_server_ends_with_a_killed_run(tmp_path: Path, end: signal.Signals) -> None:
    code = (
        "import time; from infra.services.supervisor import temporary_server; "
        "server = temporary_server(); server.wait(); "
        "print(server.process.pid, flush=True); time.sleep(600)"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment_for(tmp_path),
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    server = psutil.Process(int(run.stdout.readline()))
    run.send_signal(end)
    assert run.wait() == -end
    assert psutil.wait_procs([server], timeout=60)[1] == []
    assert "Traceback" not in (tmp_path / "logs" / "temporary-prefect.log").read_text()
