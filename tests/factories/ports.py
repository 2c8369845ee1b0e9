"""Ports for servers that tests start."""

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """One below those that the system gives to any connection: it is still free when the server
    takes it, and when the server is started again."""
    draws = random.SystemRandom()
    while True:
        port = draws.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
