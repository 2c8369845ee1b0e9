"""Ports for servers that tests start."""

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """A free port below the range from which the system assigns ports to connections.

    It is therefore still free when the server starts, and when it restarts.
    """
    draws = random.SystemRandom()
    while True:
        port = draws.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
