"""Who may ask: hosts, pages, tokens, and how much."""

import asyncio
import logging
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.types import Message, Scope

from tasks.serving import guard
from tasks.serving.guard import LONGEST_BODY, Guard, is_loopback
from tests.factories.serving import QUESTION, client, serve_untrained

TOKEN = "0123456789abcdef"
HEADERS = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return serve_untrained(tmp_path_factory.mktemp("served") / "versions")


@pytest.fixture(scope="module")
def server(folder: Path) -> TestClient:
    return client(folder)


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "10.0.0.1", "", "[::"])
def test_other_hosts_get_nothing(host: str, server: TestClient) -> None:
    response = server.get("/", headers={"host": host})
    assert response.status_code == 400
    assert response.json()["error"].startswith("The header Host must name this machine")


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:8000"])
def test_names_of_this_machine_are_answered(host: str, server: TestClient) -> None:
    assert server.get("/", headers={"host": host}).status_code == 200


def test_pages_of_other_sites_get_nothing(server: TestClient) -> None:
    for origin in ("https://evil.example", "null", "http://localhost:1"):
        response = server.post("/explain", json=QUESTION, headers={"origin": origin})
        assert response.status_code == 403
    own = server.post("/explain", json=QUESTION, headers={"origin": "http://localhost"})
    assert own.status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_only_json_is_read(kind: str, server: TestClient) -> None:
    response = server.post("/explain", content=b"{}", headers={"content-type": kind})
    assert response.status_code == 415


def test_token_is_required_except_for_probes_and_page(folder: Path) -> None:
    server = client(folder, TOKEN)
    for path in ("/", "/page.js", "/page.css", "/ping", "/health", "/metrics", "/v2/health/ready"):
        assert server.get(path, headers={"host": "models.example.org"}).status_code == 200, path
    refused = ({}, {"authorization": "Bearer x"}, {"authorization": TOKEN})
    for path in ("/", "/invocations", "/explain", "/feedback"):
        for headers in refused:
            response = server.post(path, json=QUESTION, headers=headers)
            assert response.status_code == 401, path
            assert response.headers["www-authenticate"] == "Bearer"
    assert server.get("/openapi.json").status_code == 401
    assert server.post("/explain", json=QUESTION, headers=HEADERS).status_code == 200


def test_large_bodies_are_refused(server: TestClient) -> None:
    response = server.post("/", json={"inputs": {**QUESTION, "context": "x" * 20 * 2**20}})
    assert response.status_code == 413
    assert response.headers["connection"] == "close"
    assert response.json() == {
        "error": "The request has more than 4 MiB. Send less in one request."
    }


def scope(*headers: tuple[bytes, bytes]) -> Scope:
    json = (b"content-type", b"application/json")
    return {
        "type": "http",
        "method": "POST",
        "path": "/",
        "headers": [(b"host", b"localhost"), json, *headers],
    }


async def statuses(app: Guard, *, chunk: bytes, seconds: float) -> tuple[list[int], int]:
    """The statuses sent for a body without end, in chunks after so many seconds; and the bytes of
    it that were read."""
    sent, read = [], 0

    async def receive() -> Message:
        nonlocal read
        await asyncio.sleep(seconds)
        read += len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": True}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            sent.append(message["status"])

    await app(scope(), receive, send)
    return sent, read


def test_bodies_of_unknown_length_are_bounded(
    server: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = server.app
    assert isinstance(app, Guard)
    sent, read = asyncio.run(statuses(app, chunk=bytes(2**18), seconds=0))
    assert sent == [413]
    assert LONGEST_BODY < read <= LONGEST_BODY + 2**18
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.1)
    sent, read = asyncio.run(statuses(app, chunk=b"x", seconds=0.03))
    assert sent == [408]
    assert read < 10


def test_access_log_has_no_texts(server: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    secret = "Zanzibar"
    with caplog.at_level(logging.INFO):
        server.post("/explain?q=Zanzibar", json={"question": secret, "context": secret})
        server.get(f"/{secret}")
        server.post("/invocations", json={secret: secret})
    logged = [record for record in caplog.records if record.name != "httpx"]  # the client
    lines = [record.getMessage() for record in logged if record.name == "bidaflow.access"]
    assert [line.rsplit(" ", 2)[0] for line in lines] == [
        "testclient POST /explain 200",
        "testclient GET none 404",
        "testclient POST /invocations 422",
    ]
    assert not any(secret in record.getMessage() for record in logged)


def test_loopback_addresses() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "")))
