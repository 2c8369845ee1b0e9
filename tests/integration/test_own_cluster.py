"""A cluster started here: its processes find it beside another one; the network cannot."""

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
import ray
from ray.util.state import list_nodes

from tests.factories.listeners import is_loopback

pytestmark = [pytest.mark.full, pytest.mark.heavy, pytest.mark.usefixtures("ray_cluster")]

ANOTHER = """
import ray
ray.init(address="local", num_cpus=1, object_store_memory=80 * 2**20)
print("up", flush=True)
input()
"""


@pytest.fixture
def another_cluster(ray_cluster: None) -> Iterator[None]:
    """A second cluster, started later, as another training on this machine would start it."""
    command = [sys.executable, "-c", ANOTHER]
    # Without the RAY_ variables, which would pass on the port of this process's cluster.
    environment = {name: value for name, value in os.environ.items() if name[:4] != "RAY_"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "up\n"
        yield
        process.communicate("\n")


@ray.remote
def nodes() -> list[str]:
    """Ids of the nodes that a process of the cluster sees."""
    return [node.node_id for node in list_nodes()]


def test_processes_find_their_own_cluster(another_cluster: None) -> None:
    assert ray.get(nodes.remote()) == [ray.get_runtime_context().get_node_id()]


def test_cluster_listens_on_loopback_only() -> None:
    ray.get(nodes.remote())  # wait until a worker is running
    listening = {
        (process.name(), connection.laddr.ip)
        for process in psutil.Process().children(recursive=True)
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert {(name, address) for name, address in listening if not is_loopback(address)} == set()
    assert {"raylet", "gcs_server"} <= {name for name, _ in listening}
