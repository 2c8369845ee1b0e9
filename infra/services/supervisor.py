"""`up` and `down`: the Prefect and MLflow servers, and a worker with all deployments, on loopback.

`up` stays in the foreground, and ends all of them on Ctrl-C, on `down`, or when one of them dies.
Logs, databases and process ids are kept under the root, so the next `up` has all earlier runs.
"""

import atexit
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import psutil

from infra.artifacts.live_runs import Note, live_runs
from infra.artifacts.locks import lock_if_free
from infra.environment import TEMPORARY_SERVER
from infra.errors import UserError
from infra.masking import mask_secrets
from infra.processes import (
    ProcessRecord,
    ServicesRecord,
    end,
    read_record,
    record_process,
    remove_record,
    stop,
)
from infra.services.deployments import command_environment, deploy
from infra.services.prefect_api import responds, worker_is_online
from infra.settings import CHECKOUT, LOOPBACK, settings
from infra.storage.mlflow_locations import ARTIFACTS, follow_database

START_SECONDS = 240.0
# Seconds that a run in a terminal has to end its trainings and to say so.
RUN_SECONDS = 30.0
# Seconds that `down` gives `up` to end all runs and services.
STOP_SECONDS = 180.0


@dataclass
class Service:
    """A server or worker: how it is started, when it is ready, and its process."""

    name: str
    command: list[str]
    is_ready: Callable[[], bool]
    process: subprocess.Popen[bytes] = field(init=False)
    started: float = field(init=False)

    @property
    def log(self) -> Path:
        """Path of the log."""
        return settings().root.resolve() / "logs" / f"{self.name}.log"

    def start(self) -> ProcessRecord:
        """Start the service, which appends to its log; returns the record of its process."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
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
        self.started = time.monotonic()
        return record_process(self.process.pid)

    def wait(self) -> None:
        """Wait until the service is ready; errors as for `has_started`."""
        while not self.has_started():
            time.sleep(0.2)

    def has_started(self) -> bool:
        """Whether the service is ready.

        Raises:
            UserError: it ended, or is not ready although START_SECONDS have passed.
        """
        self.require_running()
        ready = self.is_ready()
        if not ready and self.age > START_SECONDS:
            raise self._failure("is not ready")
        return ready

    @property
    def age(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def require_running(self) -> None:
        """Check that the service runs.

        Raises:
            UserError: it has ended; the message has the last lines of its log.
        """
        if self.process.poll() is not None:
            raise self._failure(f"ended with status {self.process.returncode}")

    def _failure(self, what: str) -> UserError:
        tail = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        return UserError("\n".join([*tail, f"{self.name} {what}. Full log: {self.log}"]))


def services() -> tuple[Service, ...]:
    """The Prefect and MLflow servers and the worker, none of them started.

    MLflow's is not among them if a variable names another one.
    """
    current = settings()
    python = [sys.executable, "-m"]
    prefect_server = Service(
        "prefect",
        [*python, "infra.services.prefect_server", str(current.prefect_port)],
        partial(responds, f"{current.prefect_url}/api/health"),
    )
    mlflow_server = Service(
        "mlflow",
        [
            *(*python, "mlflow", "server", "--workers", "1"),
            *("--host", LOOPBACK, "--port", str(current.mlflow_port)),
            *("--backend-store-uri", current.mlflow_database),
            # Runs and servers are on one machine, and access artifacts by the same paths.
            *("--no-serve-artifacts", "--default-artifact-root"),
            str(current.root.resolve() / ARTIFACTS),
        ],
        partial(responds, f"{current.mlflow_url}/health"),
    )
    worker = Service(
        "worker",
        [*python, "prefect", "worker", "start", "--pool", current.work_pool, "--type", "process"],
        partial(worker_is_online, f"{current.prefect_url}/api"),
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
    with socket.create_server((LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    api = f"http://{LOOPBACK}:{port}/api"
    os.environ |= {"PREFECT_API_URL": api, "PREFECT_UI_URL": "", TEMPORARY_SERVER: api}
    server = Service(
        "temporary-prefect",
        [sys.executable, "-m", "infra.services.prefect_server", str(port), str(os.getpid())],
        partial(responds, f"{api}/health"),
    )
    server.start()
    atexit.register(server.process.terminate)
    return server


def wait_for_started_server(api: str) -> None:
    """Wait while `bidaflow up` starts the Prefect server that has this API."""
    record, health = read_record(), f"{api}/health"
    if record is None or api != f"{record.prefect_url}/api" or not record.supervisor.alive:
        return
    if responds(health):
        return
    print("Waiting for the Prefect server, which bidaflow up is starting.", file=sys.stderr)
    deadline = time.monotonic() + START_SECONDS
    while record.supervisor.alive and time.monotonic() < deadline and not responds(health):
        time.sleep(0.2)


def up() -> None:
    """Start everything, print the URLs, and stay until Ctrl-C.

    Raises:
        UserError: the services already run, a port is taken, or a service does not start, or dies.
    """
    with lock_if_free(settings().root.resolve() / "locks" / "up") as free:
        if not free:
            record = read_record()
            raise UserError(f"The services are already running.\n{_urls(record) if record else ''}")
        _run_services()


def _run_services() -> None:
    if left := read_record():  # by an `up` that was killed
        _stop_all(left)
    _require_free_port("BIDAFLOW_PREFECT_PORT", settings().prefect_port)
    if _records_here():
        _require_free_port("BIDAFLOW_MLFLOW_PORT", settings().mlflow_port)
        follow_database(settings().mlflow_database)
    os.environ["PREFECT_API_URL"] = f"{settings().prefect_url}/api"
    _handle_signals(signal.default_int_handler)
    *servers, worker = services()
    record = _new_record()
    try:
        print("Starting the servers; this takes a minute on a small machine.", flush=True)
        _start(servers, record)
        deploy()
        _end_dead_runs("Its process was killed.")
        _start([worker], record)
        print(_urls(record), flush=True)
        while True:
            for service in (*servers, worker):
                service.require_running()
            time.sleep(0.5)
    except KeyboardInterrupt:
        print("\nStopping …", flush=True)
    finally:
        _handle_signals(signal.SIG_IGN)
        _stop_all(record)


def _new_record() -> ServicesRecord:
    current = settings()
    elsewhere = mask_secrets(current.mlflow_pages or current.tracking_uri)
    return ServicesRecord(
        supervisor=record_process(os.getpid()),
        services={},
        prefect_url=current.prefect_url,
        mlflow_url=current.mlflow_url if _records_here() else elsewhere,
    )


def _start(starting: Sequence[Service], record: ServicesRecord) -> None:
    """Start services, record them, and wait until they are ready."""
    for service in starting:
        record.services[service.name] = service.start()
        record.write()
    wait_for_all(starting)


def wait_for_all(waiting: Sequence[Service]) -> None:
    """Wait until all services are ready, and print a line when one is.

    Raises:
        UserError: a service ended, or was not ready within START_SECONDS.
    """
    while waiting:
        ready = [service for service in waiting if service.has_started()]
        for service in ready:
            print(f"  {service.name} is ready after {service.age:.0f} s", flush=True)
        waiting = [service for service in waiting if service not in ready]
        time.sleep(0.2)


def down() -> None:
    """Stop what `up` started, even if that `up` itself was killed."""
    record = read_record()
    if record is None:
        print("Nothing is running.")
        return
    print("Stopping …", flush=True)
    if record.supervisor.alive:
        _name_runs(record)
        stop(record.supervisor, patience=STOP_SECONDS)
    _stop_all(record)
    print("Stopped.")


def _stop_all(record: ServicesRecord) -> None:
    """Stop the flow runs, then the services, the last one started first."""
    _end_runs(record)
    for service in reversed(record.services.values()):
        stop(service)
    remove_record()


def _end_runs(record: ServicesRecord) -> None:
    """End the flow runs that use the Prefect server, and name them.

    Those in terminals get Ctrl-C. The others are killed after their worker, which would start
    another run. The servers still run, so that they learn of it.
    """
    runs = _name_runs(record)
    if not runs:
        return
    worker = record.services["worker"].process() if "worker" in record.services else None
    by_worker = worker.children(recursive=True) if worker else []
    processes = [process for run in runs if (process := run.process())]
    in_terminals = [process for process in processes if process not in by_worker]
    for process in in_terminals:
        process.send_signal(signal.SIGINT)
    psutil.wait_procs(in_terminals, timeout=RUN_SECONDS)
    end([worker, *processes] if worker else processes, patience=0)
    _end_dead_runs("It was ended with `bidaflow up`.")


def _name_runs(record: ServicesRecord) -> list[Note]:
    """Say which flow runs that use the Prefect server end, and how each resumes."""
    runs = [run for run in live_runs().values() if run.api == f"{record.prefect_url}/api"]
    for run in runs:
        print(f"Ending {run.flow} {run.name}. It resumes with: {run.command}", flush=True)
    return runs


def _end_dead_runs(reason: str) -> None:
    """End what dead runs have left on the servers and this machine, in a process of its own: this
    one lives long, and MLflow takes memory."""
    subprocess.run(
        [sys.executable, "-m", "flows.commands.end_dead_runs", reason],
        env=command_environment(),
        cwd=CHECKOUT,
        check=False,
    )


def _require_free_port(variable: str, port: int) -> None:
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError as error:
        raise UserError(
            f"Port {port} is in use by another program. Stop it, or set {variable} to a free port."
        ) from error


def _urls(record: ServicesRecord) -> str:
    return (
        f"Prefect   {record.prefect_url}   start flows, see runs and schedules\n"
        f"MLflow    {record.mlflow_url}   compare runs (choose “Model training”), see reports\n"
        "Stop      Ctrl-C here, or bidaflow down"
    )


def _handle_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Install a handler for termination signals; those ignored, as under `nohup`, stay ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
