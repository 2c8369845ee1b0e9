"""Requests to the Prefect and MLflow servers that wait while a server is busy."""

import time
from typing import Any

import httpx

ANSWER_SECONDS = 120
"""How long one request may take: on a busy machine longer than httpx waits by default."""

BUSY_SECONDS = 600


def ask(method: str, address: str, body: Any = None) -> httpx.Response:
    """The server's answer. Repeats the request while the server's database is locked (status 503),
    as Prefect's own client does."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        answer = httpx.request(method, address, json=body, timeout=ANSWER_SECONDS)
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
            return answer
        time.sleep(0.5)
