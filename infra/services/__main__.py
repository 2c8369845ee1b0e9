"""`up` and `down`: the Prefect and MLflow servers and a worker with all deployments, on loopback.

Usage: python -m infra.services up|down

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
from infra.processes import record, stop
from infra.services import deployments
from infra.services.logs import log_file, set_long_aside
from infra.settings import CHECKOUT, LOOPBACK, settings

START_SECONDS = 240.0
SETTLED_SECONDS = 30.0
EARLY_ENDS = 3
"""How often in a row a service may die within SETTLED_SECONDS of its start and be restarted. After
one more such death `up` gives up, since the service would die forever."""

PYTHON = sys.executable


class ServicesError(Exception):
    """The services can't start or continue; the message says why."""


class Service(BaseModel, frozen=True):
    """A server or worker: its command, and the address that answers when it is ready."""

    name: str
    command: list[str]
    health: str | None = None  # None: it answers at no address
    needs: str | None = None  # an address that must answer before a restart


def services() -> list[Service]:
    """The two servers and the worker, in start order."""
    here = settings()
    root = here.root.resolve()
    prefect = [PYTHON, "-m", "prefect"]
    mlflow = [PYTHON, "-m", "mlflow", "server", "--workers", "1"]
    store = ["--backend-store-uri", f"sqlite:///{root}/mlflow.db"]
    # Runs and servers are on one machine, so they access artifacts by the same paths.
    artifacts = ["--no-serve-artifacts", "--default-artifact-root", f"{root}/mlartifacts"]
    at = ["--host", LOOPBACK, "--port"]
    return [
        Service(
            name="prefect",
            command=[*prefect, "server", "start", *at, str(here.prefect_port)],
            health=f"{here.prefect_url}/api/health",
        ),
        Service(
            name="mlflow",
            command=[*mlflow, *store, *artifacts, *at, str(here.mlflow_port)],
            health=f"{here.mlflow_url}/health",
        ),
        Service(
            name="worker",
            command=[*prefect, "worker", "start", "--pool", deployments.POOL, "--type", "process"],
            needs=f"{here.prefect_url}/api/health",
        ),
    ]


def up() -> None:
    """Start everything, print the addresses, and stay until Ctrl-C.

    Raises:
        ServicesError: it is up already, a port is taken, or a service does not start or keeps
            dying.
    """
    _require_down()
    _require_free("BIDAFLOW_PREFECT_PORT", settings().prefect_port)
    _require_free("BIDAFLOW_MLFLOW_PORT", settings().mlflow_port)
    _handle_signals(_interrupt)
    started = Started()
    try:
        for service in services():
            set_long_aside(service.name)
        *servers, worker = services()
        _say("Starting the Prefect and MLflow servers …")
        for server in servers:
            started.start(server)
        for server in servers:
            started.wait_for(server)
        _say("Deploying the flows of prefect.yaml …")
        deployments.deploy(settings().prefect_url)
        subprocess.run(
            [PYTHON, "-m", "flows.commands.end_orphaned_runs"],
            env=_environment(),
            cwd=CHECKOUT,
            check=True,
        )
        started.start(worker)
        started.wait_until(worker, lambda: deployments.worker_is_online(settings().prefect_url))
        _say(_addresses(settings().prefect_url, settings().mlflow_url))
        started.watch()
    except KeyboardInterrupt:
        _say("\nStopping …")
    finally:
        _handle_signals(signal.SIG_IGN)
        started.stop()


def down() -> None:
    """Stop what `up` started, even if that `up` itself was killed."""
    here = running_services.recorded()
    if here is None:
        _say("Nothing is up.")
        return
    stop(here.supervisor, patience=60)
    _stop_services(here)
    _say("Stopped.")


class Started:
    """The services that this process has started."""

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.began: dict[str, float] = {}
        self.early_ends: Counter[str] = Counter()
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
        self.began[service.name] = time.monotonic()
        self._write()

    def wait_for(self, service: Service) -> None:
        """Wait until a server answers."""
        self.wait_until(service, lambda: _answers(str(service.health)))

    def wait_until(self, service: Service, is_there: Callable[[], bool]) -> None:
        """Wait until a service is ready.

        Raises:
            ServicesError: it ended, or was not ready within START_SECONDS.
        """
        while not is_there():
            seconds = time.monotonic() - self.began[service.name]
            if self.processes[service.name].poll() is not None or seconds > START_SECONDS:
                raise ServicesError(_failure(service.name))
            time.sleep(0.2)

    def watch(self) -> None:
        """Restart services that die.

        Raises:
            ServicesError: a service repeatedly died right after its start.
        """
        ended: dict[str, float] = {}
        while True:
            for service in services():
                if self.processes[service.name].poll() is None:
                    continue
                ended.setdefault(service.name, time.monotonic())
                if service.needs is None or _answers(service.needs):
                    self._start_again(service, ended.pop(service.name))
            time.sleep(1)

    def _start_again(self, service: Service, ended: float) -> None:
        if ended - self.began[service.name] < SETTLED_SECONDS:
            self.early_ends[service.name] += 1
        else:
            self.early_ends[service.name] = 0
        if self.early_ends[service.name] > EARLY_ENDS:
            raise ServicesError(_failure(service.name))
        _say(f"{service.name} ended unasked: it is started again.")
        self.start(service)

    def stop(self) -> None:
        """Stop all services, the worker and its flow runs first."""
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                stop(record(process.pid))
        running_services.forget()

    def _write(self) -> None:
        alive = {name: p.pid for name, p in self.processes.items() if p.poll() is None}
        running_services.Up(
            supervisor=record(os.getpid()),
            services={name: record(pid) for name, pid in alive.items()},
            prefect_url=settings().prefect_url,
            mlflow_url=settings().mlflow_url,
        ).write()


def _require_down() -> None:
    """Refuse a second `up`, and stop what a killed one left running."""
    here = running_services.recorded()
    if here is not None and here.supervisor.alive:
        raise ServicesError(f"It is up already.\n{_addresses(here.prefect_url, here.mlflow_url)}")
    if here is not None:
        _stop_services(here)


def _stop_services(here: running_services.Up) -> None:
    for service in reversed(here.services.values()):
        stop(service)
    running_services.forget()


def _require_free(variable: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise ServicesError(
                f"Port {port} is in use by another program: stop that one, or choose another port "
                f"by {variable}."
            ) from error


def _environment() -> dict[str, str]:
    return {**variables(), **os.environ, "PREFECT_API_URL": f"{settings().prefect_url}/api"}


def _answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=5).is_success
    except httpx.TransportError:
        return False


def _failure(name: str) -> str:
    tail = log_file(name).read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
    return "\n".join([*tail, f"The {name} did not start or ended: see {log_file(name)}."])


def _addresses(prefect_url: str, mlflow_url: str) -> str:
    return (
        f"Prefect   {prefect_url}   start flows, see runs and schedules\n"
        f"MLflow    {mlflow_url}   compare runs: choose “Model training”\n"
        "Stop      Ctrl-C here, or make down"
    )


def _handle_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Install a handler for termination signals; those ignored, as under `nohup`, stay ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    try:
        {"up": up, "down": down}[sys.argv[1]]()
    except ServicesError as error:
        sys.exit(str(error))
