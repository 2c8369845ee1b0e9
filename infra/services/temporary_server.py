"""Runs a Prefect server without pages for one process, and ends with it, even if it is killed.

Usage: python -m infra.services.temporary_server PORT PROCESS_ID
"""

import os
import signal
import sys
import threading
import time

import uvicorn

from infra.settings import LOOPBACK


def main(port: int, parent: int) -> None:
    """Serve on a port of this machine until a signal, or the end of the parent process."""
    threading.Thread(target=_end_with, args=[parent], daemon=True).start()
    uvicorn.run(
        "prefect.server.api.server:create_app",
        factory=True,
        host=LOOPBACK,
        port=port,
        lifespan="on",
        log_level="error",
    )


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
