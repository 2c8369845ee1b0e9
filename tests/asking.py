"""Questions to the servers, asked again where these are too busy to answer."""

import time
from typing import Any

import httpx

ANSWER_SECONDS = 120
"""On a busy machine the servers can take longer than httpx waits by default."""

BUSY_SECONDS = 600


def ask(method: str, address: str, body: Any = None) -> httpx.Response:
    """The server's answer; while its database is locked, which it tells by 503, it is asked again,
    as Prefect's own client does."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        answer = httpx.request(method, address, json=body, timeout=ANSWER_SECONDS)
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
            return answer
        time.sleep(0.5)
