"""Follows the champion, whose files one process fetches from MLflow, and keeps the replicas running
that answer with them."""

import logging
import signal
import socket
from collections import deque
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

import torch
from prometheus_client.multiprocess import mark_process_dead
from uvicorn import Config, Server

from infra.errors import UserError, first_line
from tasks.serving.doors import create_app
from tasks.serving.metrics import FOLLOWS
from tasks.serving.replica import POLL_SECONDS, Replica, publish
from tasks.serving.served_model import ServedModel
from tasks.tracking import registry
from tasks.tracking.client import reading_client, require_server

RETRY_SECONDS = 5.0  # until the next look at the alias after an error
GRACE_SECONDS = 30  # for requests under way when the server ends
WATCH_SECONDS = 0.1  # until a signal is noticed, and between two starts of a broken replica

logger = logging.getLogger(__name__)


class Champion:
    """The champion of a registered model, in a folder from which replicas load it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self._version: registry.RegisteredVersion | None = None
        self._fetched = deque[TemporaryDirectory[str]]()

    def update(self) -> None:
        """Fetch the champion if it is a new one, load it and ask it a question. If it answers,
        replicas take it over.

        Raises:
            UserError: MLflow does not respond or refuses access, there is no champion, or its files
                are gone or can't be loaded.
        """
        require_server(again=True)
        version = None
        if reading_client() is not None:
            version = registry.find(self.name, registry.CHAMPION)
        if version is None:
            dataset = self.name.removeprefix("bidaf-")
            raise UserError(
                f"{dataset} has no champion yet. Train one: bidaflow retrain --data.dataset "
                f"{dataset}"
            )
        if version == self._version:
            return
        fetched = TemporaryDirectory(dir=self.folder)
        model = Path(fetched.name, "model")
        registry.download(version.model_id, model)
        ServedModel.load(model, version.name, version.version)
        publish(self.folder, model, version.name, version.version)
        self._version = version
        self._fetched.append(fetched)
        if len(self._fetched) > 2:  # a replica may still load the previous one
            self._fetched.popleft().cleanup()

    def follow(self, stop: Event) -> None:
        """Update until `stop`. After an error the last version goes on, and the log and the metrics
        say so."""
        problem = ""
        while not stop.wait(RETRY_SECONDS if problem else POLL_SECONDS):
            before, problem = problem, ""
            try:
                self.update()
            except Exception as error:  # also those of MLflow and its database
                problem = first_line(error)
                if problem != before:
                    logger.warning("Can't follow the champion: %s.", problem)
            FOLLOWS.set(not problem)


def run_server(
    name: str,
    address: tuple[str, int],
    replicas: int,
    token: str | None,
    feedback: Path | None,
    folder: Path,
) -> None:
    """Answer with the champion of the registered model until a signal arrives.

    `folder` gets the champion's files. Metrics are kept in $PROMETHEUS_MULTIPROC_DIR.

    Raises:
        UserError: there is no champion, or it can't be loaded, MLflow does not respond, or the port
            is taken.
    """
    champion, stop = Champion(folder, name), Event()
    with _listening(*address) as listener:
        champion.update()
        FOLLOWS.set(1)
        _log()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        follower = Thread(target=champion.follow, args=(stop,))
        follower.start()
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        print(
            f"Answers and a page at http://{host}:{address[1]} (Ctrl+C ends the server)", flush=True
        )
        threads = max(1, torch.get_num_threads() // replicas)
        arguments = listener, folder, token, feedback, threads
        # Replicas are forks of a process that has imported this module, which takes seconds.
        processes = get_context("forkserver")
        processes.set_forkserver_preload([__name__])
        keep_running(
            lambda: processes.Process(target=_run_replica, args=arguments, daemon=True),
            replicas,
            stop,
        )
        follower.join()


def _listening(host: str, port: int) -> socket.socket:
    """A socket at the address; raises UserError."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"Can't listen at {host}, port {port} ({error}). Choose another --port or --host."
        ) from error


def keep_running(create: Callable[[], BaseProcess], count: int, stop: Event) -> None:
    """Keep so many processes running until `stop`, then end them."""
    running: list[BaseProcess] = []
    while not stop.is_set():
        for process in [process for process in running if not process.is_alive()]:
            running.remove(process)
            mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
        for process in [create() for _ in range(count - len(running))]:
            process.start()
            running.append(process)
        wait([process.sentinel for process in running], WATCH_SECONDS)
        stop.wait(WATCH_SECONDS)
    for process in running:
        process.terminate()
    for process in running:
        process.join()


def _run_replica(
    listener: socket.socket, folder: Path, token: str | None, feedback: Path | None, threads: int
) -> None:
    """Answer requests until a signal arrives, with so many threads of torch."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent, which gets it too, ends this process
    _log()
    torch.set_num_threads(threads)
    replica = Replica(folder)
    Thread(target=replica.follow, daemon=True).start()
    config = Config(
        create_app(replica, token, feedback),
        access_log=False,  # it would show what follows the "?" of an address
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    Server(config).run([listener])


def _log() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
