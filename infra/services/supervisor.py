"""`up` and `down`: the Prefect and MLflow servers, and a worker with all deployments, on loopback.

`up` stays in the foreground, restarts services that die, and stops all of them on Ctrl-C. Logs,
databases and process ids are kept under the root, so the next `up` has all earlier runs.
"""

import atexit
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import httpx
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from infra.environment import TEMPORARY_SERVER
from infra.errors import UserError
from infra.masking import mask_secrets
from infra.processes import (
    ProcessRecord,
    ServicesRecord,
    read_record,
    record_process,
    remove_record,
    stop,
)
from infra.services.deployments import command_environment, deploy, worker_is_online
from infra.settings import CHECKOUT, LOOPBACK, settings

START_SECONDS = 240.0
STABLE_SECONDS = 30.0
# The number of times in a row that a service is restarted without running for STABLE_SECONDS in
# between. If it exits once more, `up` gives up, since the service would exit forever.
MAX_RESTARTS = 3
# Size in bytes above which a log is rotated at the next start.
MAX_LOG_BYTES = 10 * 2**20


@dataclass
class Service:
    """A server or worker: how it is started, when it is ready, and its process."""

    name: str
    command: list[str]
    is_ready: Callable[[], bool]
    needs: "Service | None" = None  # must be ready before a restart
    restarts: int = 0  # in a row
    record: ProcessRecord | None = None  # None before the first start
    process: subprocess.Popen[bytes] = field(init=False)
    started: float = field(init=False)

    @property
    def log(self) -> Path:
        """Path of the log; its folder is created if it is missing."""
        folder = settings().root.resolve() / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{self.name}.log"

    def start(self) -> None:
        """Start the service.

        A log above the limit is rotated first; one earlier log is kept as `<name>.log.1`.
        """
        if self.log.exists() and self.log.stat().st_size > MAX_LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=command_environment(),
                cwd=CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C and the end of the terminal do not reach it
            )
        self.record = record_process(self.process.pid)
        self.started = time.monotonic()

    def wait(self) -> None:
        """Wait until the service is ready.

        Raises:
            UserError: it ended, or was not ready within START_SECONDS.
        """
        while not self.has_started():
            time.sleep(0.2)

    def has_started(self) -> bool:
        """Whether the service is ready.

        Raises:
            UserError: it ended, or is not ready although START_SECONDS have passed.
        """
        if self.is_ready():
            return True
        if self.process.poll() is not None or self.age > START_SECONDS:
            raise self._failure()
        return False

    @property
    def age(self) -> float:
        """Seconds since the last start."""
        return time.monotonic() - self.started

    def restart_if_dead(self) -> bool:
        """Restart the service if it has died, and what it needs is ready; returns whether it did.

        Raises:
            UserError: it repeatedly died soon after its start.
        """
        if self.process.poll() is None:
            if self.age > STABLE_SECONDS:
                self.restarts = 0
            return False
        if self.needs is not None and not self.needs.is_ready():
            return False
        if self.restarts == MAX_RESTARTS:
            raise self._failure()
        print(f"{self.name} exited unexpectedly; restarting.", flush=True)
        self.restarts += 1
        self.start()
        return True

    def _failure(self) -> UserError:
        tail = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        return UserError(
            "\n".join([*tail, f"{self.name} failed to start or exited. Full log: {self.log}"])
        )


def services() -> tuple[Service, ...]:
    """The Prefect and MLflow servers and the worker, none of them started.

    MLflow's is not among them if a variable names another one.
    """
    current = settings()
    python = [sys.executable, "-m"]
    prefect_server = Service(
        "prefect",
        [*python, "infra.services.prefect_server"],
        partial(_responds, f"{current.prefect_url}/api/health"),
    )
    mlflow_server = Service(
        "mlflow",
        [*python, "infra.services.mlflow_server"],
        partial(_responds, f"{current.mlflow_url}/health"),
    )
    worker = Service(
        "worker",
        [*python, "prefect", "worker", "start", "--pool", current.work_pool, "--type", "process"],
        worker_is_online,
        needs=prefect_server,
    )
    own_mlflow = [mlflow_server] if _records_here() else []
    return prefect_server, *own_mlflow, worker


def _records_here() -> bool:
    """Whether MLflow's runs are recorded here, not on a server that a variable names."""
    named = urlsplit(settings().mlflow_tracking_uri or "")
    is_own = named.hostname in (LOOPBACK, "localhost") and named.port == settings().mlflow_port
    return is_own or named.scheme not in ("http", "https")


def temporary_server() -> Service:
    """Start a Prefect server for this process, without pages, and set PREFECT_API_URL to it.

    Prefect would start the same server by itself, but only after all imports.
    """
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        api = f"http://{LOOPBACK}:{free.getsockname()[1]}/api"
    server = Service(
        "temporary-prefect",
        [
            *("env", "PREFECT__SERVER_EPHEMERAL=1", "PREFECT__SERVER_FINAL=1"),
            *("PREFECT_SERVER_LOGGING_LEVEL=ERROR", f"PREFECT_API_URL={api}"),
            *(sys.executable, "-m", "infra.services.temporary_server"),
            *(str(urlsplit(api).port), str(os.getpid())),
        ],
        partial(_responds, f"{api}/health"),
    )
    server.start()
    atexit.register(server.process.terminate)
    os.environ |= {"PREFECT_API_URL": api, "PREFECT_UI_URL": "", TEMPORARY_SERVER: api}
    return server


def wait_for_started_server(api: str) -> None:
    """Wait while `bidaflow up` starts, or restarts, the Prefect server that has this API."""
    record = read_record()
    if record is None or not record.supervisor.alive or api != f"{record.prefect_url}/api":
        return
    if _responds(f"{api}/health"):
        return
    print("Waiting for the Prefect server, which bidaflow up is starting.", file=sys.stderr)
    deadline = time.monotonic() + START_SECONDS
    while record.supervisor.alive and time.monotonic() < deadline:
        if _responds(f"{api}/health"):
            return
        time.sleep(0.2)


def up() -> None:
    """Start everything, print the URLs, and stay until Ctrl-C.

    Raises:
        UserError: the services already run, a port is taken, or a service does not start or
            keeps dying.
    """
    _require_not_running()
    _require_free_port("BIDAFLOW_PREFECT_PORT", settings().prefect_port)
    if _records_here():
        _require_free_port("BIDAFLOW_MLFLOW_PORT", settings().mlflow_port)
    os.environ["PREFECT_API_URL"] = f"{settings().prefect_url}/api"
    _handle_signals(signal.default_int_handler)
    everything = *servers, worker = services()
    try:
        _write_record(everything)
        print("Starting the servers; this takes a minute on a small machine.", flush=True)
        for server in servers:
            server.start()
            _write_record(everything)
        wait_for_all(servers)
        with _step("deploying the flows of prefect.yaml"):
            deploy()
            subprocess.run(
                [sys.executable, "-m", "flows.commands.end_orphaned_runs"],
                env=command_environment(),
                cwd=CHECKOUT,
                check=True,
            )
        worker.start()
        _write_record(everything)
        wait_for_all([worker])
        print(_urls(_current_urls()), flush=True)
        while True:
            for service in everything:
                if service.restart_if_dead():
                    _write_record(everything)
            time.sleep(1)
    except KeyboardInterrupt:
        print("\nStopping …", flush=True)
    finally:
        _handle_signals(signal.SIG_IGN)
        _stop_all(service.record for service in everything if service.record is not None)


def wait_for_all(waiting: Sequence[Service]) -> None:
    """Wait until all services are ready, and print a line when one is.

    In a terminal, the last lines show those that are still starting, with the seconds so far.

    Raises:
        UserError: a service ended, or was not ready within START_SECONDS.
    """
    with _steps() as steps:
        tasks = {s.name: steps.add_task(f"starting {s.name}", total=None) for s in waiting}
        while waiting:
            ready = [service for service in waiting if service.has_started()]
            for service in ready:
                steps.remove_task(tasks[service.name])
                print(f"  {service.name} is ready after {service.age:.0f} s", flush=True)
            waiting = [service for service in waiting if service not in ready]
            time.sleep(0.2)


@contextmanager
def _step(text: str) -> Iterator[None]:
    """Show a step with its seconds so far, and print its duration at the end."""
    began = time.monotonic()
    with _steps() as steps:
        steps.add_task(text, total=None)
        yield
    print(f"  {text} took {time.monotonic() - began:.0f} s", flush=True)


def _steps() -> Progress:
    """Lines of steps in progress and their times; drawn in a terminal only."""
    console = Console()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_interactive)


def down() -> None:
    """Stop what `up` started, even if that `up` itself was killed."""
    record = read_record()
    if record is None:
        print("Nothing is running.")
        return
    stop(record.supervisor, patience=60)
    _stop_all(record.services.values())
    print("Stopped.")


def _write_record(everything: Iterable[Service]) -> None:
    ServicesRecord(
        supervisor=record_process(os.getpid()),
        services={service.name: service.record for service in everything if service.record},
        **_current_urls(),
    ).write()


def _current_urls() -> dict[str, str]:
    current = settings()
    elsewhere = current.mlflow_pages or current.tracking_uri
    return {
        "prefect_url": current.prefect_url,
        "mlflow_url": current.mlflow_url if _records_here() else mask_secrets(elsewhere),
    }


def _stop_all(records: Iterable[ProcessRecord]) -> None:
    """Stop services, given in start order: the worker and its flow runs first."""
    for record in reversed(list(records)):
        stop(record)
    remove_record()


def _require_not_running() -> None:
    """Refuse a second `up`, and stop what a killed one left running."""
    record = read_record()
    if record is None:
        return
    if record.supervisor.alive:
        raise UserError(f"The services are already running.\n{_urls(record.model_dump())}")
    _stop_all(record.services.values())


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


def _responds(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.TransportError:
        return False


def _urls(urls: Mapping[str, str]) -> str:
    return (
        f"Prefect   {urls['prefect_url']}   start flows, see runs and schedules\n"
        f"MLflow    {urls['mlflow_url']}   compare runs (choose “Model training”), see reports\n"
        "Stop      Ctrl-C here, or bidaflow down"
    )


def _handle_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Install a handler for termination signals; those ignored, as under `nohup`, stay ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
