"""Requests to the Prefect and MLflow servers, repeated while a server is busy."""

import time
from typing import Any

import httpx

ANSWER_SECONDS = 120
"""Time limit of one request; a busy machine needs more than the default of httpx."""

BUSY_SECONDS = 600


def send_request(method: str, url: str, body: Any = None) -> httpx.Response:
    """The server's response. Repeats the request while its database is locked (status 503),
    as Prefect's own client does."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        response = httpx.request(method, url, json=body, timeout=ANSWER_SECONDS)
        if response.status_code != httpx.codes.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
            return response
        time.sleep(0.5)
