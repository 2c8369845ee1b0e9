"""Keeps browsers on this machine: Prefect's pages can't load anything from elsewhere.

They would load the logos of blocks from other sites, and the V2 pages would ask for analytics
settings.
"""

from typing import TYPE_CHECKING

from infra.settings import LOOPBACK

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# A page may use its server's API under the other name of this machine.
_HERE = " ".join(
    f"{scheme}://{host}:*" for scheme in ("http", "ws") for host in (LOOPBACK, "localhost")
)
HEADER = "content-security-policy"
POLICY = f"default-src 'self' {_HERE} 'unsafe-inline' 'unsafe-eval' data: blob:"


class OwnContentOnly:
    """An ASGI app with the policy in the headers of its responses."""

    def __init__(self, app: "ASGIApp") -> None:
        self.app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer as the wrapped app does."""

        async def send_with_policy(message: "Message") -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (HEADER.encode(), POLICY.encode())]
            await send(message)

        await self.app(scope, receive, send_with_policy)
