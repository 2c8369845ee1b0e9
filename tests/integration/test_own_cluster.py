"""A cluster started here: its processes find it beside another one; the network cannot. If it can't
be started, users read why."""

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
import ray
from ray.util.state import list_nodes

from tests.factories.cli import kill
from tests.factories.listeners import is_loopback
from tests.factories.services import wait

pytestmark = [pytest.mark.full, pytest.mark.heavy]

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


def test_cluster_listens_on_loopback_only(ray_cluster: None) -> None:
    ray.get(nodes.remote())  # wait until a worker is running
    listening = {
        (process.name(), connection.laddr.ip)
        for process in psutil.Process().children(recursive=True)
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert {(name, address) for name, address in listening if not is_loopback(address)} == set()
    assert {"raylet", "gcs_server"} <= {name for name, _ in listening}


def test_machine_that_is_too_busy_is_a_user_error() -> None:
    program = "from infra.cluster.ray_cluster import connect; connect()"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as starting:
        (raylet,) = wait("the raylet", lambda: raylets(starting.pid))
        raylet.suspend()  # as slow as can be
        _, errors = starting.communicate()
        kill([raylet])  # Ray may have ended it
    assert "UserError: Ray was not ready after 30 seconds: other programs keep this" in errors


def test_home_that_cannot_be_written_is_a_user_error() -> None:
    program = "from infra.cluster.ray_cluster import connect; connect()"
    home = {**os.environ, "HOME": "/proc/self"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=home, capture_output=True, text=True, check=False)
    assert "UserError: Ray can't write /proc/self/.ray: " in done.stderr


def raylets(pid: int) -> list[psutil.Process]:
    """The raylets that the process `pid` has started."""
    children = psutil.Process(pid).children(recursive=True)
    return [child for child in children if child.name() == "raylet"]
