"""`up` and `down`: the Prefect and MLflow servers and a worker with all deployments, on loopback.

`up` stays in the foreground, restarts services that die, and stops all of them on Ctrl-C. Logs,
databases and process ids are kept under the root, so the next `up` has all earlier runs.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType

import httpx
from pydantic import BaseModel

from infra import running_services
from infra.environment import variables
from infra.errors import UserError
from infra.processes import record_process, stop
from infra.services import deployments
from infra.services.logs import log_file, rotate_if_long
from infra.settings import CHECKOUT, LOOPBACK, settings

START_SECONDS = 240.0
STABLE_SECONDS = 30.0
MAX_EARLY_EXITS = 3
"""The number of times in a row that a service is restarted after it died within STABLE_SECONDS of
its start. After one more such death `up` gives up, since the service would die forever."""

PYTHON = sys.executable


class Service(BaseModel, frozen=True):
    """A server or worker: its command, and the URL that responds when it is ready."""

    name: str
    command: list[str]
    health: str | None = None  # None: it has no URL to check
    needs: str | None = None  # a URL that must respond before a restart


def services() -> list[Service]:
    """The two servers and the worker, in start order."""
    current = settings()
    root = current.root.resolve()
    prefect = [PYTHON, "-m", "prefect"]
    mlflow = [PYTHON, "-m", "mlflow", "server", "--workers", "1"]
    store = ["--backend-store-uri", f"sqlite:///{root}/mlflow.db"]
    # Runs and servers are on one machine, so they access artifacts by the same paths.
    artifacts = ["--no-serve-artifacts", "--default-artifact-root", f"{root}/mlartifacts"]
    bind = ["--host", LOOPBACK, "--port"]
    return [
        Service(
            name="prefect",
            command=[*prefect, "server", "start", *bind, str(current.prefect_port)],
            health=f"{current.prefect_url}/api/health",
        ),
        Service(
            name="mlflow",
            command=[*mlflow, *store, *artifacts, *bind, str(current.mlflow_port)],
            health=f"{current.mlflow_url}/health",
        ),
        Service(
            name="worker",
            command=[*prefect, "worker", "start", "--pool", deployments.POOL, "--type", "process"],
            needs=f"{current.prefect_url}/api/health",
        ),
    ]


def up() -> None:
    """Start everything, print the URLs, and stay until Ctrl-C.

    Raises:
        UserError: the services already run, a port is taken, or a service does not start or
            keeps dying.
    """
    _require_not_running()
    _require_free_port("BIDAFLOW_PREFECT_PORT", settings().prefect_port)
    _require_free_port("BIDAFLOW_MLFLOW_PORT", settings().mlflow_port)
    _handle_signals(_interrupt)
    supervisor = Supervisor()
    try:
        for service in services():
            rotate_if_long(service.name)
        *servers, worker = services()
        _print("Starting the Prefect and MLflow servers …")
        for server in servers:
            supervisor.start(server)
        for server in servers:
            supervisor.wait_for(server)
        _print("Deploying the flows of prefect.yaml …")
        deployments.deploy(settings().prefect_url)
        subprocess.run(
            [PYTHON, "-m", "flows.commands.end_orphaned_runs"],
            env=_environment(),
            cwd=CHECKOUT,
            check=True,
        )
        supervisor.start(worker)
        supervisor.wait_until(worker, lambda: deployments.worker_is_online(settings().prefect_url))
        _print(_urls(settings().prefect_url, settings().mlflow_url))
        supervisor.watch()
    except KeyboardInterrupt:
        _print("\nStopping …")
    finally:
        _handle_signals(signal.SIG_IGN)
        supervisor.stop()


def down() -> None:
    """Stop what `up` started, even if that `up` itself was killed."""
    record = running_services.read_record()
    if record is None:
        _print("Nothing is running.")
        return
    stop(record.supervisor, patience=60)
    _stop_services(record)
    _print("Stopped.")


class Supervisor:
    """Starts the services, restarts those that die, and stops all of them."""

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.start_times: dict[str, float] = {}
        self.early_exits: Counter[str] = Counter()
        self._write()

    def start(self, service: Service) -> None:
        """Start a service in its own session, so that Ctrl-C does not reach it."""
        with log_file(service.name).open("ab") as log:
            self.processes[service.name] = subprocess.Popen(
                service.command,
                env=_environment(),
                cwd=CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.start_times[service.name] = time.monotonic()
        self._write()

    def wait_for(self, service: Service) -> None:
        """Wait until a server answers."""
        self.wait_until(service, lambda: _responds(str(service.health)))

    def wait_until(self, service: Service, is_ready: Callable[[], bool]) -> None:
        """Wait until a service is ready.

        Raises:
            UserError: it ended, or was not ready within START_SECONDS.
        """
        while not is_ready():
            seconds = time.monotonic() - self.start_times[service.name]
            if self.processes[service.name].poll() is not None or seconds > START_SECONDS:
                raise UserError(_failure(service.name))
            time.sleep(0.2)

    def watch(self) -> None:
        """Restart services that die.

        Raises:
            UserError: a service repeatedly died right after its start.
        """
        ended: dict[str, float] = {}
        while True:
            for service in services():
                if self.processes[service.name].poll() is None:
                    continue
                ended.setdefault(service.name, time.monotonic())
                if service.needs is None or _responds(service.needs):
                    self._restart(service, ended.pop(service.name))
            time.sleep(1)

    def _restart(self, service: Service, ended: float) -> None:
        if ended - self.start_times[service.name] < STABLE_SECONDS:
            self.early_exits[service.name] += 1
        else:
            self.early_exits[service.name] = 0
        if self.early_exits[service.name] > MAX_EARLY_EXITS:
            raise UserError(_failure(service.name))
        _print(f"{service.name} exited unexpectedly; restarting.")
        self.start(service)

    def stop(self) -> None:
        """Stop all services, the worker and its flow runs first."""
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                stop(record_process(process.pid))
        running_services.remove_record()

    def _write(self) -> None:
        alive = {name: p.pid for name, p in self.processes.items() if p.poll() is None}
        running_services.ServicesRecord(
            supervisor=record_process(os.getpid()),
            services={name: record_process(pid) for name, pid in alive.items()},
            prefect_url=settings().prefect_url,
            mlflow_url=settings().mlflow_url,
        ).write()


def _require_not_running() -> None:
    """Refuse a second `up`, and stop what a killed one left running."""
    record = running_services.read_record()
    if record is not None and record.supervisor.alive:
        raise UserError(
            f"The services are already running.\n{_urls(record.prefect_url, record.mlflow_url)}"
        )
    if record is not None:
        _stop_services(record)


def _stop_services(record: running_services.ServicesRecord) -> None:
    for service in reversed(record.services.values()):
        stop(service)
    running_services.remove_record()


def _require_free_port(variable: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise UserError(
                f"Port {port} is in use by another program. Stop it, or set {variable} to a free "
                "port."
            ) from error


def _environment() -> dict[str, str]:
    return {**variables(), **os.environ, "PREFECT_API_URL": f"{settings().prefect_url}/api"}


def _responds(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.TransportError:
        return False


def _failure(name: str) -> str:
    tail = log_file(name).read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
    return "\n".join([*tail, f"{name} failed to start or exited. Full log: {log_file(name)}"])


def _urls(prefect_url: str, mlflow_url: str) -> str:
    return (
        f"Prefect   {prefect_url}   start flows, see runs and schedules\n"
        f"MLflow    {mlflow_url}   compare runs (choose “Model training”)\n"
        "Stop      Ctrl-C here, or bidaflow down"
    )


def _handle_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Install a handler for termination signals; those ignored, as under `nohup`, stay ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _print(line: str) -> None:
    print(line, flush=True)
