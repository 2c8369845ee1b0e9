"""Runs Prefect's server in this process, for `bidaflow up` or, without pages, for one command.

`prefect server start` does the same, but answers requests for any host name, and its pages load
images from other sites.

Usage: python -m infra.services.prefect_server PORT [PROCESS_ID]

With the id of its parent, it is a server for that process, with which it ends, even if that process
is killed.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable

import uvicorn
from fastapi import Request, Response
from prefect.server.api.server import create_app
from prefect.settings import PREFECT_SERVER_API_KEEPALIVE_TIMEOUT
from starlette.middleware.trustedhost import TrustedHostMiddleware

from infra.settings import LOOPBACK

HOSTS = [LOOPBACK, "localhost"]
# A page may use its server's API under the other name of this machine.
_HERE = " ".join(f"{scheme}://{host}:*" for scheme in ("http", "ws") for host in HOSTS)
POLICY = f"default-src 'self' {_HERE} 'unsafe-inline' 'unsafe-eval' data: blob:"


def main(port: int, parent: int | None = None) -> None:
    """Create or update the database, and serve it until a signal, or the end of the parent."""
    app = create_app(ephemeral=parent is not None, final=True)
    app.middleware("http")(own_content_only)
    if parent is not None:
        threading.Thread(target=_end_with, args=[parent], daemon=True).start()
    uvicorn.run(
        # A page of another site, whose name leads here, has that name in its requests. Around the
        # app: Prefect's own requests, such as those of automations, reach it by another name.
        TrustedHostMiddleware(app, allowed_hosts=HOSTS),
        host=LOOPBACK,
        port=port,
        timeout_keep_alive=PREFECT_SERVER_API_KEEPALIVE_TIMEOUT.value(),
        access_log=False,
    )


async def own_content_only(
    request: Request, answer: Callable[[Request], Awaitable[Response]]
) -> Response:
    """The answer, whose pages can't load anything from elsewhere.

    They would load the logos of blocks from other sites, and the V2 pages would ask for analytics
    settings.
    """
    response = await answer(request)
    response.headers["content-security-policy"] = POLICY
    return response


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
