"""A cluster started here: its processes find it beside another one; the network cannot. If it can't
be started, users read why."""

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import ray
from ray.util.state import list_nodes

from infra.settings import CHECKOUT
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


WITHOUT_RAY = """
import sys

if any("default_worker.py" in word for word in sys.orig_argv):
    sys.modules["ray"] = None
"""
"""A sitecustomize module with which Ray's workers, but not its other processes, can't import it."""


def packages_on_path(*folders: str) -> dict[str, str]:
    """An environment for a Python without packages, which finds them through its PYTHONPATH."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, sysconfig.get_path("purelib")])}


def python_without_packages(program: str, environment: dict[str, str], folder: Path) -> str:
    """The output and errors of a program in this folder."""
    command = [os.path.realpath(sys.executable), "-c", program]
    done = subprocess.run(
        command,
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout


def test_workers_keep_the_path_of_the_caller(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "one.py").touch()
    (tmp_path / "two.py").touch()
    program = (
        "from infra import environment; environment.apply()\n"
        "import ray; from infra.cluster.ray_cluster import connect; connect()\n"
        "found = lambda: [__import__(name).__name__ for name in ('infra', 'one', 'two')]\n"
        "print(ray.get(ray.remote(num_cpus=0)(found).remote()))"
    )
    environment = packages_on_path(str(CHECKOUT), "here", "")
    output = python_without_packages(program, environment, tmp_path)
    assert "['infra', 'one', 'two']" in output, output


def test_workers_that_cannot_start_are_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_RAY, encoding="utf-8")
    program = (
        "from infra import environment; environment.apply()\n"
        "from infra.cluster.ray_cluster import connect; connect(worker_seconds=10)"
    )
    environment = packages_on_path(str(tmp_path), str(CHECKOUT))
    output = python_without_packages(program, environment, tmp_path)
    (logs,) = re.findall(
        r"UserError: No worker of Ray started within 10 seconds\. raylet\.err and worker-\*\.err "
        r"in (\S+) say why; if they say nothing, the machine is too busy\.",
        output,
    )
    assert "No module named 'ray" in Path(logs, "raylet.err").read_text(encoding="utf-8")


def raylets(pid: int) -> list[psutil.Process]:
    """The raylets that the process `pid` has started."""
    children = psutil.Process(pid).children(recursive=True)
    return [child for child in children if child.name() == "raylet"]
