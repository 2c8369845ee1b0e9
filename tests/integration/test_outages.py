"""Outages of the servers delay a training on a cluster: nothing is lost, and the weights are those
of an undisturbed training."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mlflow.tracking import MlflowClient

from infra.settings import CHECKOUT
from tests.factories.cli import environment_for, write_dataset
from tests.factories.cluster import LOGIN, Cluster, cluster
from tests.factories.cluster_run import RESOURCES, TRAINING, Run, stored_digests
from tests.factories.services import FINAL, processes_with, wait

pytestmark = [pytest.mark.heavy, pytest.mark.full, pytest.mark.timeout(900)]


class Deployment:
    """The deployment `train` on the cluster's Prefect server, with a worker for its runs."""

    def __init__(self, servers: Cluster, folder: Path) -> None:
        self.api, self.folder = f"{servers.prefect_url}/api", folder
        place = {"BIDAFLOW_CACHE": str(folder / "cache"), "BIDAFLOW_WORK_POOL": "local"}
        self.environment = environment_for(Path(), **servers.variables("outages"), **place)
        self._prefect("work-pool", "create", "local", "--type", "process")
        self._prefect("--no-prompt", "deploy", "--name", "train")
        self.worker = subprocess.Popen(
            [sys.executable, "-m", "prefect", "worker", "start", "--pool", "local"],
            env=self.environment,
            cwd=CHECKOUT,
            stdout=(folder / "worker.log").open("w"),
            stderr=subprocess.STDOUT,
        )

    def _prefect(self, *words: str) -> None:
        command = [sys.executable, "-m", "prefect", *words]
        subprocess.run(command, env=self.environment, cwd=CHECKOUT, check=True)

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of the server; None if it has none."""
        try:
            answer = httpx.request(method, f"{self.api}{path}", json=body, auth=LOGIN, timeout=30)
            return answer.raise_for_status().json()
        except (httpx.TransportError, httpx.HTTPStatusError):
            return None

    def start(self, parameters: dict[str, Any]) -> None:
        deployment = self.request("GET", "/deployments/name/train/train")["id"]
        body = {"parameters": parameters}
        run = self.request("POST", f"/deployments/{deployment}/create_flow_run", body)
        self.run_id = run["id"]

    def wait_for_line(self, text: str) -> None:
        """Wait until a line with the text is in the run's log."""
        wait(text, lambda: text in self.logs() or self.state() in FINAL)
        assert text in self.logs()

    def logs(self) -> str:
        filters = {"logs": {"flow_run_id": {"any_": [self.run_id]}}, "sort": "TIMESTAMP_DESC"}
        lines = self.request("POST", "/logs/filter", filters) or []
        return "\n".join(line["message"] for line in lines)

    def state(self) -> str | None:
        run = self.request("GET", f"/flow_runs/{self.run_id}")
        return run and str(run["state_type"])


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as started:
        yield started


def test_outages_lose_nothing(servers: Cluster, tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "own")
    with Run("train", data, tmp_path / "local") as local:
        local.finish()
    servers.wait()
    deployment = Deployment(servers, tmp_path)
    try:
        deployment.start(
            {
                "data": {"dataset": str(data)},
                "variants": ["char"],
                "training": TRAINING,
                "resources": RESOURCES,
            }
        )
        deployment.wait_for_line("epoch 1:")
        servers.database.restart()
        deployment.wait_for_line("epoch 2:")
        servers.store.fail_for(20)
        deployment.wait_for_line("epoch 3:")
        deployment.worker.kill()
        state = wait("the run's end", lambda: (s := deployment.state()) in FINAL and s)
        assert state == "COMPLETED", deployment.logs()
        # Its worker is gone, but it still sends its last lines to the server.
        mark = ("PREFECT__FLOW_RUN_ID", deployment.run_id)
        wait("the end of the run's process", lambda: not processes_with(*mark))
    finally:
        deployment.worker.kill()
        deployment.worker.wait()
    assert stored_digests(servers.store, "outages") == local.digests()
    assert len(epochs_in_mlflow(servers)) == TRAINING["epochs"]


def epochs_in_mlflow(servers: Cluster) -> list[float]:
    """The loss of each epoch on dev that MLflow has of the only training."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in servers.variables("outages").items():
            patch.setenv(name, value)
        client = MlflowClient(servers.mlflow_url)
        experiment = client.get_experiment_by_name("bidaflow/own")
        assert experiment is not None
        query = "tags.`bidaflow.role` = 'variant'"
        (run,) = client.search_runs([experiment.experiment_id], query)
        assert run.info.status == "FINISHED"
        return [point.value for point in client.get_metric_history(run.info.run_id, "dev/nll")]
