"""Starts and restarts the replicas of a server, and follows the champion."""

import logging
import socket
import threading
from functools import partial
from pathlib import Path

import torch
from uvicorn import Config
from uvicorn.supervisors import Multiprocess

from infra.errors import UserError
from tasks.serving.app import create_app
from tasks.serving.champion import ChampionFolder
from tasks.serving.guard import Guard
from tasks.serving.metrics import FOLLOWS
from tasks.serving.replica import Replica

GRACE_SECONDS = 30  # for requests under way when the server ends
HANG_SECONDS = 30  # after which a replica that does not react is killed; importing torch takes some


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
    champion, stop = ChampionFolder(folder, name), threading.Event()
    with _listening(*address) as listener:
        champion.update()
        FOLLOWS.set(1)
        _log()
        threads = max(1, torch.get_num_threads() // replicas)
        supervisor = Multiprocess(
            Config(
                partial(_create_app, folder, token, feedback, threads),
                factory=True,
                workers=replicas,
                access_log=False,  # it would show what follows the "?" of an address
                log_level="warning",
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
                timeout_worker_healthcheck=HANG_SECONDS,
            ),
            [listener],
        )
        follower = threading.Thread(target=champion.follow, args=(stop,))
        follower.start()
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        print(
            f"Answers and a page at http://{host}:{address[1]} (Ctrl+C ends the server)", flush=True
        )
        try:
            supervisor.run()
        finally:
            stop.set()
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


def _create_app(folder: Path, token: str | None, feedback: Path | None, threads: int) -> Guard:
    """The app of a replica, which has so many threads of torch."""
    _log()
    torch.set_num_threads(threads)
    replica = Replica(folder)
    threading.Thread(target=replica.follow, daemon=True).start()
    return create_app(replica, token, feedback)


def _log() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
