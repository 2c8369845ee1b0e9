"""What each request passes before a door reads it: who sends it, from which page, and how much."""

import asyncio
import hmac
import logging
import re
import time
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tasks.serving.metrics import LATENCY, REQUESTS

LONGEST_BODY = 4 * 2**20  # bytes
TOO_LARGE = f"The request has more than {LONGEST_BODY >> 20} MiB. Send less in one request."
BODY_SECONDS = 20.0  # until the body has arrived
TOO_SLOW = "The request did not arrive in time."
CLOSE = {"connection": "close"}  # what is left of the body is not read
# The page has no data of its own; load balancers and Prometheus have no token.
OPEN = (
    *("/", "/page.css", "/page.js", "/metrics"),
    *("/ping", "/health", "/version", "/v2/health/live", "/v2/health/ready"),
)
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}

access_log = logging.getLogger("bidaflow.access")


def is_loopback(host: str) -> bool:
    """Whether a host name or address always is that of this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """An ASGI app that answers as the wrapped one, but refuses requests that may not be made,
    counts all, and logs each in a line without any text of the request.

    Without a token, the header Host must name this machine, so that a page of another site whose
    name leads here (DNS rebinding) gets nothing. With one, such a page lacks the token.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, status, size = time.perf_counter(), 500, 0
        deadline = asyncio.get_running_loop().time() + BODY_SECONDS

        async def receive_in_bounds() -> Message:
            nonlocal size
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError as error:
                raise HTTPException(408, TOO_SLOW, CLOSE) from error
            size += len(message.get("body", b""))
            if size > LONGEST_BODY:
                raise HTTPException(413, TOO_LARGE, CLOSE)
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        try:
            self._check(scope, Headers(scope=scope))
        except HTTPException as refusal:
            headers = {**CLOSE, **(refusal.headers or {})}
            response = JSONResponse({"error": refusal.detail}, refusal.status_code, headers)
            await response(scope, receive, send_with_headers)
        else:
            await self.app(scope, receive_in_bounds, send_with_headers)
        finally:
            seconds = time.perf_counter() - start
            door = getattr(scope.get("route"), "path", "none")  # a path may contain texts
            REQUESTS.labels(door, status).inc()
            LATENCY.labels(door).observe(seconds)
            client, method = (scope.get("client") or "-")[0], scope["method"]
            access_log.info("%s %s %s %d %.1f ms", client, method, door, status, 1000 * seconds)

    def _check(self, scope: Scope, headers: Headers) -> None:
        """Raises HTTPException if the sender, or this kind of request, is not allowed."""
        host, method, path = headers.get("host", ""), scope["method"], scope["path"]
        if self.token is None and not is_loopback(re.sub(r":\d+$", "", host).strip("[]")):
            raise HTTPException(400, "The header Host must name this machine, such as localhost.")
        if headers.get("origin", f"://{host}").partition("://")[2] != host:
            raise HTTPException(403, "Pages of other sites may not use this server.")
        if self.token is not None and not (method == "GET" and path in OPEN):
            given = headers.get("authorization", "").encode()
            if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
                raise HTTPException(
                    401,
                    "This server needs its token, in the header Authorization: Bearer TOKEN.",
                    {"www-authenticate": "Bearer"},
                )
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and media_type != "application/json":
            raise HTTPException(415, "The header Content-Type must be application/json.")
