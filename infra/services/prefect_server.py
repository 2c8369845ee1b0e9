"""Runs Prefect's server in this process, for `bidaflow up`.

`prefect server start` does the same, but its pages load images from other sites.

Usage: python -m infra.services.prefect_server
"""

import uvicorn
from prefect.server.api.server import create_app
from prefect.settings import PREFECT_SERVER_API_KEEPALIVE_TIMEOUT
from starlette.middleware.trustedhost import TrustedHostMiddleware

from infra.services.page_policy import OwnContentOnly
from infra.settings import LOOPBACK, settings


def main() -> None:
    """Create or update the database, and serve it until a signal ends the process."""
    app = OwnContentOnly(create_app(final=True))
    uvicorn.run(
        # A page of another site, whose name leads here, has that name in its requests.
        TrustedHostMiddleware(app, allowed_hosts=[LOOPBACK, "localhost"]),
        host=LOOPBACK,
        port=settings().prefect_port,
        timeout_keep_alive=PREFECT_SERVER_API_KEEPALIVE_TIMEOUT.value(),
        access_log=False,
    )


if __name__ == "__main__":
    main()
