"""A cluster whose nodes share nothing but servers trains what one machine trains, bit for bit, also
if a node dies or servers do not respond for a while."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from infra.artifacts.manifest import MANIFEST
from infra.settings import CHECKOUT
from tests.factories.cli import tests_server, write_dataset
from tests.factories.cluster import Cluster, cluster
from tests.factories.cluster_run import TRAINING, Run, stored_digests

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3600)]

JOIN = """
from infra.cluster.ray_cluster import connect
from infra.errors import UserError
try:
    connect()
except UserError as error:
    raise SystemExit(str(error))
"""
"""A program that joins the cluster, or ends with the reason why it can't."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("data") / "own")


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def local(
    two_nodes: Cluster, data: Path, prefect_server: None, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """A run on this machine alone, while the servers start."""
    with Run("train", data, tmp_path_factory.mktemp("local"), tests_server()) as run:
        run.finish()
    two_nodes.wait()
    return run


def test_nodes_see_neither_our_code_nor_each_other(two_nodes: Cluster) -> None:
    head, worker = two_nodes.nodes
    assert "Permission denied" in head.run("ls", CHECKOUT).stderr
    assert "Permission denied" in head.run("cat", CHECKOUT / "flows" / "retrain.py").stderr
    assert "Permission denied" in head.run("ls", worker.folder).stderr
    program = "from importlib.util import find_spec\n"
    program += "assert find_spec('torch') and find_spec('ray')\nimport flows"
    assert "No module named 'flows'" in head.run(head.python, "-c", program).stderr


def test_a_node_that_dies_is_replaced(
    two_nodes: Cluster, local: Run, data: Path, tmp_path: Path
) -> None:
    """The run trains what one machine trains, and decides on it."""
    with Run("retrain", data, tmp_path, two_nodes.variables("killed")) as run:
        run.read_until("epoch 1:")
        for node in two_nodes.nodes:
            fetched = {file.parts[-3] for file in node.folder.rglob(f"stages/*/*/{MANIFEST}")}
            assert {"encode", "build-vocabulary", "select-vectors"} <= fetched
        two_nodes.nodes[-1].kill()
        two_nodes.join()
        run.finish()
    _, died, later = run.output.partition("a node of the cluster died.")
    assert died and "continuing from epoch" in later
    assert re.search(r"Version \d+ \(\w+\) (is now the champion|was not promoted): ", later)
    assert local.digests() == stored_digests(two_nodes.store, "killed") == run.digests()


@pytest.mark.full
def test_outages_lose_nothing(
    two_nodes: Cluster, local: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outages of the database and of the store only delay a training."""
    variables = two_nodes.variables("outages")
    with Run("train", data, tmp_path, variables) as run:
        run.read_until("epoch 1:")
        two_nodes.database.restart()
        run.read_until("epoch 2:")
        two_nodes.store.fail_for(20)
        run.finish()
    assert local.digests() == stored_digests(two_nodes.store, "outages") == run.digests()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    client = MlflowClient(two_nodes.mlflow_url)
    experiment = client.get_experiment_by_name("bidaflow/own")
    query = "tags.`bidaflow.role` = 'variant'"
    newest, *_ = client.search_runs([experiment.experiment_id], query)
    assert newest.info.status == "FINISHED"
    logged = client.get_metric_history(newest.info.run_id, "dev/nll")
    assert len({point.step for point in logged}) == TRAINING["epochs"]


def refusal(two_nodes: Cluster, preparation: str = "pass", **variables: str) -> str:
    """The errors of a process that must not join the cluster."""
    program = f"{preparation}\n{JOIN}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | two_nodes.variables("refused") | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode
    return done.stderr


def test_wrong_token_is_refused_in_a_sentence(
    two_nodes: Cluster, local: Run, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("t" * 64, encoding="utf-8")
    errors = refusal(two_nodes, RAY_AUTH_TOKEN_PATH=str(token), RAY_NUM_REDIS_GET_RETRIES="1")
    assert "refuses the connection. Set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH" in errors
    assert "Traceback" not in errors


def test_another_version_of_ray_is_refused(two_nodes: Cluster, local: Run) -> None:
    errors = refusal(two_nodes, "import ray; ray.__version__ = '1.0'")
    assert "has another version of Ray or Python than this machine" in errors
    assert "Ray: 1.0 " in errors
