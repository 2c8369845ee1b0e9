"""Machines that share nothing but servers: the nodes of a Ray cluster, each another user of the
system, and an S3 server, PostgreSQL, Prefect and MLflow, which all refuse requests without a login.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

import httpx
import psutil
import pytest
import ray

from infra.settings import CHECKOUT
from tests.factories.cli import kill
from tests.factories.object_store import BUCKET, ObjectStore, object_store
from tests.factories.ports import free_port
from tests.factories.postgresql import PostgreSQL, postgresql
from tests.factories.services import processes_with, wait

NODE = "BIDAFLOW_TEST_NODE"
"""Marks the processes of a node."""
FIRST_USER = 20001
"""The number of the first node's user; none of that number exists."""
LOGIN = ("admin", "password-of-the-servers")
MARKS = tuple(name for name in os.environ if name.startswith("BIDAFLOW_TEST_"))
HOST = "127.0.0.1"
PACKAGES = "packages"
"""The folder of the dependencies beside the nodes' interpreter."""
JOINED = """
import sys, time, ray
ray.init(address="{address}")
for _ in range(60):
    if sum(node["Alive"] for node in ray.nodes()) == {nodes}:
        sys.exit()
    time.sleep(1)
sys.exit(1)
"""
"""A program that succeeds as soon as all nodes are alive."""
PSYCOPG = "postgresql+psycopg"


class Node:
    """A machine of a Ray cluster: a user with a folder, our dependencies, and none of our code."""

    def __init__(self, number: int, python: Path, variables: dict[str, str]) -> None:
        self.user, self.python = FIRST_USER + number, python
        self.folder = Path(tempfile.mkdtemp(prefix="n-"))  # paths of Ray's sockets must be short
        self.token = self.folder / "token"
        self.token.write_text(variables["RAY_AUTH_TOKEN"], encoding="utf-8")
        self.mark = token_hex(8)
        self.environment = {
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "PATH": "/usr/bin:/bin",
            "LD_LIBRARY_PATH": str(python.parents[1] / "lib"),
            "PYTHONPATH": str(python.parents[1] / PACKAGES),
            "BIDAFLOW_CACHE": str(self.folder / "cache"),
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            NODE: self.mark,
            **{name: os.environ[name] for name in MARKS},
            **{name: value for name, value in variables.items() if name != "RAY_AUTH_TOKEN"},
        }
        for path in (self.folder, self.token):
            os.chown(path, self.user, self.user)
            path.chmod(0o700)

    def _as_user(self, *command: str | Path) -> list[str]:
        """The command line that runs a command as the machine's user."""
        ids = ("--reuid", str(self.user), "--regid", str(self.user), "--clear-groups")
        return ["setpriv", *ids, *map(str, command)]

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command on the machine; output and errors are text."""
        return subprocess.run(
            self._as_user(*command),
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self, *options: str) -> None:
        """Start Ray, again and again until the head is up; without waiting for it."""
        ports = ("--dashboard-agent-listen-port", "--metrics-export-port")
        command = self._as_user(
            *("sh", "-c", 'until "$@"; do sleep 1; done', "sh", self.python),
            *("-m", "ray.scripts.scripts", "start", "--block", "--temp-dir", self.folder),
            *("--num-cpus", "1", "--object-store-memory", str(80 * 2**20)),
            # By default, the nodes on this machine would use the same ports.
            *("--min-worker-port", "0", "--max-worker-port", "0"),
            *(word for port in ports for word in (port, str(free_port()))),
            *options,
        )
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, env=self.environment, cwd=self.folder, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """Kill the raylet: the node's other processes end with it."""
        self.process.kill()  # which would start it again
        self.process.wait()
        kill(process for process in self._processes() if process.name() == "raylet")

    def remove(self) -> None:
        """End all processes of the machine, and remove its folder."""
        self.process.kill()
        self.process.wait()
        processes = self._processes()
        kill(processes)
        psutil.wait_procs(processes, timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _processes(self) -> list[psutil.Process]:
        return processes_with(NODE, self.mark)


@dataclass
class Cluster:
    """The servers, and the nodes that have joined so far."""

    store: ObjectStore
    database: PostgreSQL
    python: Path
    logs: Path
    token: str = field(default_factory=lambda: token_hex(32))
    nodes: list[Node] = field(default_factory=list)
    servers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ray_port, prefect, mlflow = free_port(), free_port(), free_port()
        self.prefect_url, self.mlflow_url = f"http://{HOST}:{prefect}", f"http://{HOST}:{mlflow}"
        self.logs.mkdir()
        (self.logs / "token").write_text(self.token, encoding="utf-8")
        self._serve(
            "prefect",
            *("-m", "prefect", "server", "start", "--host", HOST, "--port", str(prefect)),
            PREFECT_HOME=str(self.logs / "prefect"),
            PREFECT_SERVER_API_AUTH_STRING=":".join(LOGIN),
            PREFECT_SERVER_DATABASE_CONNECTION_URL=self.database.address(
                "prefect", "postgresql+asyncpg"
            ),
        )
        config = self.logs / "basic_auth.ini"
        config.write_text(
            "[mlflow]\n"
            "default_permission = READ\n"
            "auth_cache_ttl_seconds = 60\n"
            f"database_uri = {self.database.address('mlflow_auth', PSYCOPG)}\n"
            f"admin_username = {LOGIN[0]}\n"
            f"admin_password = {LOGIN[1]}\n"
            "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n",
            encoding="utf-8",
        )
        self._serve(
            "mlflow",
            *("-m", "mlflow", "server", "--app-name", "basic-auth", "--host", HOST),
            *("--port", str(mlflow), "--workers", "1", "--no-serve-artifacts"),
            *("--backend-store-uri", self.database.address("mlflow", PSYCOPG)),
            *("--default-artifact-root", f"s3://{BUCKET}/mlflow"),
            MLFLOW_AUTH_CONFIG_PATH=str(config),
            MLFLOW_FLASK_SERVER_SECRET_KEY=token_hex(16),
            **self.store.variables,
        )
        self.join(
            *("--head", "--port", str(self.ray_port), "--include-dashboard", "false"),
            *("--ray-client-server-port", str(free_port())),
        )

    def _serve(self, name: str, *command: str, **variables: str) -> None:
        """Start a server of ours, without waiting until it is up."""
        with (self.logs / f"{name}.log").open("ab") as log:
            self.servers[name] = subprocess.Popen(
                [sys.executable, *command],
                env={**os.environ, **variables},
                cwd=self.logs,
                stdout=log,
                stderr=log,
            )

    def join(self, *options: str) -> Node:
        """Start another node, without waiting until it is up."""
        user, password = LOGIN
        variables = {
            **{n: v for n, v in self.store.variables.items() if "KEY" in n or "METADATA" in n},
            "MLFLOW_TRACKING_USERNAME": user,
            "MLFLOW_TRACKING_PASSWORD": password,
            "RAY_AUTH_TOKEN": self.token,
        }
        node = Node(len(self.nodes), self.python, variables)
        self.nodes.append(node)
        node.start(*(options or ("--address", self.address)))
        return node

    @property
    def address(self) -> str:
        return f"{ray.util.get_node_ip_address()}:{self.ray_port}"

    def variables(self, folder: str) -> dict[str, str]:
        """What a run needs to use the servers and the nodes, with a folder of the store as root."""
        user, password = LOGIN
        return {
            "BIDAFLOW_ROOT": f"s3://{BUCKET}/{folder}",
            **self.store.variables,
            "BIDAFLOW_MLFLOW_TRACKING_URI": self.mlflow_url,
            "MLFLOW_TRACKING_USERNAME": user,
            "MLFLOW_TRACKING_PASSWORD": password,
            "PREFECT_API_URL": f"{self.prefect_url}/api",
            "PREFECT_API_AUTH_STRING": f"{user}:{password}",
            "RAY_ADDRESS": self.address,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.logs / "token"),
        }

    def wait(self) -> None:
        """Wait until the servers answer, and all nodes have joined."""
        for url in (f"{self.prefect_url}/api/health", f"{self.mlflow_url}/health"):
            wait(url, lambda url=url: self._answers(url))  # type: ignore[misc]
        wait("the nodes", self._joined)

    def _joined(self) -> bool:
        """Whether all nodes are alive, within a minute after the first one is."""
        program = JOINED.format(address=self.address, nodes=len(self.nodes))
        return self.nodes[0].run(self.python, "-c", program).returncode == 0

    def _answers(self, url: str) -> bool:
        for name, server in self.servers.items():
            assert server.poll() is None, (self.logs / f"{name}.log").read_text("utf-8")
        try:
            return httpx.get(url, auth=LOGIN, timeout=5).is_success
        except httpx.TransportError:
            return False

    def close(self) -> None:
        for server in self.servers.values():
            running = server.poll() is None
            children = psutil.Process(server.pid).children(recursive=True) if running else []
            server.kill()
            server.wait()
            kill(children)
        for node in self.nodes:
            node.remove()


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Start the servers and a cluster of two nodes, for the block; without waiting for them."""
    if os.geteuid() != 0:
        pytest.skip("needs root: each node is another user")
    with ExitStack() as stack:
        python = stack.enter_context(open_interpreter())
        stack.enter_context(closed_checkout())
        store = stack.enter_context(object_store(refuses_strangers=True))
        database = stack.enter_context(postgresql())
        started = Cluster(store, database, python, folder / "servers")
        stack.callback(started.close)
        started.join()
        yield started


@contextmanager
def open_interpreter() -> Iterator[Path]:
    """A copy of the Python interpreter, with our dependencies, that every user can open."""
    base = Path(sys.base_prefix)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    with tempfile.TemporaryDirectory(prefix="python-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(
            base / "lib" / version,
            folder / "lib" / version,
            ignore=shutil.ignore_patterns("site-packages", "test"),
            copy_function=_link,
        )
        for library in (base / "lib").glob("libpython*"):
            _link(library, folder / "lib" / library.name)
        packages = Path(sysconfig.get_path("purelib"))
        if all(path.stat().st_mode & 0o001 for path in (packages, *packages.parents)):
            (folder / PACKAGES).symlink_to(packages)
        else:  # in a folder that is closed to others; this takes half a minute
            shutil.copytree(packages, folder / PACKAGES, copy_function=_link)
        (folder / "bin").mkdir()
        yield Path(_link(base / "bin" / version, folder / "bin" / version))


def _link(source: str | Path, target: str | Path) -> str | Path:
    """A hard link, or a copy if the target is on another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


@contextmanager
def closed_checkout() -> Iterator[None]:
    """Keep other users out of the checkout, except out of the environment in it."""
    environment = Path(sys.prefix)
    closed = [path for path in CHECKOUT.iterdir() if path.is_dir() and path != environment]
    modes = {path: path.stat().st_mode for path in (*closed, CHECKOUT)}
    try:
        for path in closed:
            path.chmod(0o700)
        CHECKOUT.chmod(0o711)
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
