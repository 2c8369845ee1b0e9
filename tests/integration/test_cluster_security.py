"""The services of the compose file, started as it says: who gets in, and where secrets are."""

import json
import tempfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest
from mlflow.tracking import MlflowClient
from playwright.sync_api import Browser, Page, expect
from pyarrow.fs import FileSelector, FileType, S3FileSystem

from infra.kubernetes.render import MANIFESTS, render
from infra.settings import CHECKOUT
from tasks.tracking.client import denied
from tests.factories.cli import QUICK, bidaflow, write_dataset
from tests.factories.cluster_services import ClusterServices, cluster_services
from tests.factories.http_server import http_server
from tests.factories.manifests import job_template, read_manifests
from tests.factories.ports import free_port
from tests.factories.tracking_store import parent_run

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1800)]

WRONG = "wrong-password"
READER = ("reader", "password-of-reader")
DATA_TOKEN = "token-of-data"
PAGE_MILLISECONDS = 120_000


@pytest.fixture(scope="module")
def services() -> Iterator[ClusterServices]:
    # Ray's sockets need a short path.
    with (
        tempfile.TemporaryDirectory(prefix="b-", ignore_cleanup_errors=True) as folder,
        cluster_services(Path(folder)) as started,
    ):
        yield started


@pytest.fixture(scope="module")
def login(services: ClusterServices) -> dict[str, str]:
    """The variables of a flow in the cluster; trainings run without its Ray."""
    variables = services.with_secrets("prefect-worker")
    names = ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH")
    return {name: value for name, value in variables.items() if name not in names}


def store_with(services: ClusterServices, secret: str) -> S3FileSystem:
    return S3FileSystem(
        access_key=services.secret("s3_key"),
        secret_key=secret,
        endpoint_override=services.url("s3"),
        region="us-east-1",
        allow_bucket_creation=True,
    )


def test_prefect_asks_for_a_login(services: ClusterServices) -> None:
    url = f"{services.url('prefect')}/api/deployments/filter"
    user, password = services.secret("prefect_login").split(":")
    assert httpx.post(url).status_code == 401
    assert httpx.post(url, auth=(user, WRONG)).status_code == 401
    assert httpx.post(url, auth=(user, password)).status_code == 200


def test_mlflow_asks_for_a_login_and_a_known_host(services: ClusterServices) -> None:
    for path in ("/", "/version", "/api/2.0/mlflow/experiments/search?max_results=1"):
        url, password = f"{services.url('mlflow')}{path}", services.secret("mlflow_password")
        assert httpx.get(url).status_code == 401
        assert httpx.get(url, auth=("admin", WRONG)).status_code == 401
        if path.startswith("/api"):
            assert httpx.get(url, auth=("admin", password)).status_code == 200
            host = {"Host": "rebound.example:5000"}
            assert httpx.get(url, auth=("admin", password), headers=host).status_code == 403


def test_ray_asks_for_its_token(services: ClusterServices) -> None:
    def status(path: str, token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.get(f"{services.url('dashboard')}{path}", headers=headers).status_code

    for path in ("/api/jobs/", "/api/v0/nodes", "/nodes?view=summary"):
        codes = [status(path, token) for token in ("", WRONG, services.secret("auth_token"))]
        assert codes == [401, 403, 200], path


def test_store_asks_for_its_keys(services: ClusterServices) -> None:
    bucket = store_with(services, services.secret("s3_secret")).get_file_info("bidaflow")
    assert bucket.type == FileType.Directory
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        store_with(services, WRONG).create_dir("other")


@pytest.mark.parametrize("name", ["prefect", "mlflow", "dashboard"])
def test_health_is_open(name: str, services: ClusterServices) -> None:
    """The health checks of the containers know no secrets."""
    paths = {"prefect": "/api/health", "mlflow": "/health", "dashboard": "/api/gcs_healthz"}
    host = {"Host": "10.1.2.3:5000"}  # as Kubernetes asks
    assert httpx.get(f"{services.url(name)}{paths[name]}", headers=host).status_code == 200


def test_health_check_of_ray_needs_the_token(services: ClusterServices) -> None:
    def check(**variables: str) -> int:
        command = ["ray", "health-check", f"--address=127.0.0.1:{services.ports['ray-head']}"]
        services.run("check", command, services.environment("ray-head") | variables)
        return services.processes.pop("check").wait()

    assert check() == 0
    assert check(RAY_AUTH_TOKEN_PATH=str(services.secrets / "mlflow_password")) != 0


def opened(chromium: Browser, url: str, **options: Any) -> Page:
    page = chromium.new_context(**options).new_page()
    page.set_default_timeout(PAGE_MILLISECONDS)
    page.goto(url)
    return page


@pytest.mark.browser
def test_pages_work_with_a_login(services: ClusterServices, chromium: Browser) -> None:
    expect.set_options(timeout=PAGE_MILLISECONDS)
    page = opened(chromium, services.url("prefect"))
    page.get_by_placeholder("admin:pass").fill(services.secret("prefect_login"))
    page.get_by_role("button", name="Login").click()
    expect(page.get_by_text("Work Pools", exact=True).first).to_be_visible()

    user = {"username": "admin", "password": services.secret("mlflow_password")}
    page = opened(chromium, services.url("mlflow"), http_credentials=user)
    expect(page.get_by_text("Welcome to MLflow")).to_be_visible()

    page = opened(chromium, f"{services.url('dashboard')}/#/cluster")
    page.get_by_role("dialog").get_by_role("textbox").fill(services.secret("auth_token"))
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_text("ALIVE").first).to_be_visible()


def refusal(root: Path, command: str, variables: dict[str, str]) -> str:
    """The error of a command, which is one sentence and what to do."""
    done = bidaflow(root, *command.split(), **variables)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    return done.stderr.strip()


def test_commands_say_which_login_to_set(
    services: ClusterServices, login: dict[str, str], tmp_path: Path
) -> None:
    wrong = login | {"BIDAFLOW_CACHE": str(tmp_path), "PREFECT_API_AUTH_STRING": f"admin:{WRONG}"}
    for command in ("check tiny", "deploy"):
        assert refusal(tmp_path, command, wrong) == (
            f"The Prefect server at {login['PREFECT_API_URL']} refuses access. "
            "Set PREFECT_API_AUTH_STRING to user:password."
        )
    wrong = login | {"BIDAFLOW_CACHE": str(tmp_path), "MLFLOW_TRACKING_PASSWORD": WRONG}
    assert refusal(tmp_path, "status", wrong) == (
        f"The MLflow server at {services.url('mlflow')} refuses access. "
        "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD to a login."
    )


def test_users_may_read_by_default(
    services: ClusterServices, login: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in login.items():
        monkeypatch.setenv(name, value)
    uri = services.url("mlflow")
    api = f"{uri}/api/2.0/mlflow"
    admin = ("admin", services.secret("mlflow_password"))
    user = {"username": READER[0], "password": READER[1]}
    assert httpx.post(f"{api}/users/create", json=user, auth=admin).is_success
    MlflowClient(uri).create_experiment("bidaflow/own")

    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", READER[0])
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", READER[1])
    assert MlflowClient(uri).get_experiment_by_name("bidaflow/own") is not None
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", uri)
    with pytest.raises(Exception, match="Permission denied") as raised:
        parent_run("flow", "own")
    assert str(denied(raised.value)) == (
        f"The MLflow server at {uri} does not let the user reader write. "
        "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD to a login of one who may, "
        "or ask for the permission EDIT."
    )
    assert denied(ValueError("another error")) is None


@pytest.mark.full
def test_flows_are_deployed_as_kubernetes_jobs(login: dict[str, str], tmp_path: Path) -> None:
    """The server accepts the template of the jobs, and the variables of all deployments for it."""
    render(MANIFESTS.with_name("values.yaml"), tmp_path / "rendered")
    template = tmp_path / "job-template.json"
    template.write_text(json.dumps(job_template(read_manifests(tmp_path / "rendered"))))
    pool = {"BIDAFLOW_WORK_POOL": "kubernetes", "BIDAFLOW_JOB_TEMPLATE": str(template)}
    variables = login | pool | {"BIDAFLOW_CACHE": str(tmp_path / "cache")}
    done = bidaflow(tmp_path, "deploy", **variables)
    assert done.stdout.startswith("Deployed   to kubernetes"), done.stderr
    user, password = login["PREFECT_API_AUTH_STRING"].split(":")
    url = f"{login['PREFECT_API_URL']}/deployments/filter"
    deployments = httpx.post(url, json={}, auth=(user, password)).json()
    assert {deployment["work_pool_name"] for deployment in deployments} == {"kubernetes"}
    assert all("memory_request" in deployment["job_variables"] for deployment in deployments)
    assert len(deployments) == (CHECKOUT / "prefect.yaml").read_text().count("\n  - name: ")
    done = bidaflow(tmp_path, "deploy", **login, BIDAFLOW_CACHE=str(tmp_path / "cache"))
    assert "The deployments of this Prefect server run on Kubernetes" in done.stderr
    for deployment in deployments:
        url = f"{login['PREFECT_API_URL']}/deployments/{deployment['id']}"
        assert httpx.delete(url, auth=(user, password)).is_success


@pytest.mark.full
def test_worker_joins_ray_and_prefect(
    services: ClusterServices, login: dict[str, str], tmp_path: Path
) -> None:
    """The worker's command starts a node of Ray, then serves the pool, all with their logins."""
    assert bidaflow(tmp_path, "deploy", **login, BIDAFLOW_CACHE=str(tmp_path)).returncode == 0
    port = str(free_port())
    services.start("prefect-worker", PREFECT_WORKER_WEBSERVER_PORT=port)
    services.wait("prefect-worker", f"http://127.0.0.1:{port}/health")
    variables = services.with_secrets("prefect-worker") | {"BIDAFLOW_CACHE": str(tmp_path)}
    done = bidaflow(tmp_path, "doctor", **variables, COLUMNS="200")
    assert "2 node(s), 0 CPU(s)" in done.stdout, done.stdout
    user, password = login["PREFECT_API_AUTH_STRING"].split(":")
    url = f"{login['PREFECT_API_URL']}/work_pools/local/workers/filter"
    (worker,) = httpx.post(url, json={}, auth=(user, password)).json()
    assert worker["status"] == "ONLINE"


@pytest.mark.full
def test_run_with_a_login_leaves_no_secret(
    services: ClusterServices, login: dict[str, str], tmp_path: Path
) -> None:
    """Not in its output, its store and cache, its MLflow run, or the logs of the services."""
    variables = login | {"BIDAFLOW_CACHE": str(tmp_path / "cache"), "COLUMNS": "200"}
    done = bidaflow(tmp_path, "doctor", **variables)
    assert "All is well" in done.stdout, done.stdout
    outputs = [done.stdout, bidaflow(tmp_path, "deploy", **variables).stdout]
    assert outputs[1].startswith("Deployed   to local"), outputs
    with http_server(
        partial(SimpleHTTPRequestHandler, directory=str(write_dataset(tmp_path / "data")))
    ) as server:
        files = [f"{server}/{name}.json?token={DATA_TOKEN}" for name in ("train", "dev")]
        options = ("--data.train-files", files[0], "--data.dev-files", files[1])
        done = bidaflow(tmp_path, "train", *options, "--variants", "char", *QUICK, **variables)
    assert done.returncode == 0, done.stderr
    texts = dict(enumerate([*outputs, done.stdout, done.stderr, recorded_runs(services)]))
    logs = [*services.folder.glob("*.log"), *services.folder.glob("ray/session_*/logs/*")]
    written = [*logs, *(tmp_path / "cache").rglob("*")]
    texts |= {file: file.read_text(errors="replace") for file in written if file.is_file()}
    texts |= stored(services)
    secrets = {DATA_TOKEN, *(services.secret(file.name) for file in services.secrets.iterdir())}
    secrets -= {services.secret("s3_key")}  # the name of the key, which requests show
    secrets.add(services.secret("prefect_login").partition(":")[2])
    places = [str(name) for name, text in texts.items() if any(s in text for s in secrets)]
    assert places == []
    assert len(logs) > 10 and "token=***" in "".join(texts.values())


def recorded_runs(services: ClusterServices) -> str:
    """All of MLflow's runs, with their parameters and tags, as text."""
    url = f"{services.url('mlflow')}/api/2.0/mlflow"
    admin = ("admin", services.secret("mlflow_password"))
    found = httpx.get(f"{url}/experiments/search?max_results=100", auth=admin).json()["experiments"]
    query = {"experiment_ids": [experiment["experiment_id"] for experiment in found]}
    answer = httpx.post(f"{url}/runs/search", json=query, auth=admin).json()
    assert len(answer["runs"]) >= 2
    return json.dumps(answer)


def stored(services: ClusterServices) -> dict[str, str]:
    """The text of every object in the bucket."""
    files = store_with(services, services.secret("s3_secret"))
    infos = files.get_file_info(FileSelector("bidaflow", recursive=True))
    return {
        info.path: files.open_input_stream(info.path).read().decode(errors="replace")
        for info in infos
        if info.is_file
    }
