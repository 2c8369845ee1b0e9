"""The sockets on which a run's processes listen, sampled while it goes on."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from ipaddress import IPv6Address, ip_address
from pathlib import Path

import psutil

INTERVAL_SECONDS = 0.2

Listener = tuple[str, str]  # process name and address


@contextmanager
def sampled_listeners(root: Path) -> Iterator[set[Listener]]:
    """The listeners of all processes with this storage root, added to the set within the block."""
    found: set[Listener] = set()
    finished = threading.Event()

    def sample() -> None:
        while not finished.wait(INTERVAL_SECONDS):
            found.update(_listeners(root))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield found
    finally:
        finished.set()
        sampler.join()


def _listeners(root: Path) -> Iterator[Listener]:
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.pid:
            name = _name(connection.pid, root)
            if name is not None:
                yield name, connection.laddr.ip


@cache
def _name(pid: int, root: Path) -> str | None:
    """The name of a process with this storage root; None for other processes."""
    try:
        process = psutil.Process(pid)
        return process.name() if process.environ().get("BIDAFLOW_ROOT") == str(root) else None
    except psutil.Error:
        return None


def is_loopback(address: str) -> bool:
    """Whether the address is loopback; IPv4 addresses written as IPv6 (::ffff:…) count too."""
    parsed = ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return (mapped or parsed).is_loopback
