"""prefect.yaml on a real Prefect server: deployed, and run once by a real worker."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from infra.settings import CHECKOUT
from tests.integration.running import environment_for

pytestmark = pytest.mark.heavy

PREFECT = str(Path(sys.executable).with_name("prefect"))
SECONDS = 240
PARAMETERS = (
    *("--param", 'variants=["char"]'),
    *("--param", 'training={"epochs": 1, "hidden_size": 8}'),
    *("--param", 'resources={"workers": 1, "cpus_per_worker": 1}'),
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of commands that talk to a Prefect server started for this test."""
    root = tmp_path_factory.mktemp("deployed")
    port = free_port()
    api = f"http://127.0.0.1:{port}/api"
    variables = environment_for(root, PREFECT_API_URL=api, PREFECT_HOME=str(root / "prefect"))
    (root / "prefect").mkdir()
    command = [PREFECT, "server", "start", "--port", str(port)]
    with subprocess.Popen(
        command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            wait_for(f"{api}/health")
            yield variables
        finally:
            server.terminate()


def wait_for(address: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if httpx.get(address).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.5)
    raise TimeoutError(address)


def prefect(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [PREFECT, "--no-prompt", *arguments],
        env=environment,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_worker_runs_the_retrain_deployment(environment: dict[str, str]) -> None:
    prefect(environment, "work-pool", "create", "local", "--type", "process")
    prefect(environment, "deploy", "--all")
    api = environment["PREFECT_API_URL"]
    (deployment,) = httpx.post(f"{api}/deployments/filter", json={}).json()
    assert deployment["name"] == "retrain"
    assert [s["schedule"]["timezone"] for s in deployment["schedules"]] == ["Europe/London"]

    prefect(environment, "deployment", "run", "retrain/retrain", *PARAMETERS)
    prefect(environment, "worker", "start", "--pool", "local", "--run-once")
    state = finished_state(api, deployment["id"])
    assert state == "COMPLETED", logs(api)
    reports = Path(os.fspath(environment["BIDAFLOW_ROOT"])) / "reports"
    assert (reports / "tiny.html").is_file()
    artifacts = httpx.post(f"{api}/artifacts/filter", json={}).json()
    assert {artifact["key"] for artifact in artifacts} >= {"results", "mlflow-char"}


def finished_state(api: str, deployment: str) -> str:
    """The final state of the deployment's flow run that was started by hand."""
    deadline = time.monotonic() + SECONDS
    manual = {"deployments": {"id": {"any_": [deployment]}}, "sort": "EXPECTED_START_TIME_ASC"}
    while time.monotonic() < deadline:
        run = httpx.post(f"{api}/flow_runs/filter", json=manual).json()[0]
        if run["state_type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"):
            return str(run["state_type"])
        time.sleep(1)
    raise TimeoutError("the flow run did not end")


def logs(api: str) -> str:
    return "\n".join(line["message"] for line in httpx.post(f"{api}/logs/filter", json={}).json())
