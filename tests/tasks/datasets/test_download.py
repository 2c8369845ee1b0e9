"""Downloads from a real server that disconnects, stalls, redirects, errs or changes its file."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from infra.errors import UserError
from infra.settings import CHECKOUT
from tasks.datasets import download as downloads
from tasks.datasets.download import DownloadError, download
from tests.factories.file_server import Served, serving

CONTENT = Random(1).randbytes(300_000)


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(Served(CONTENT)) as server:
        yield server


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    return tmp_path / "made.json"


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "BACK_OFF_SECONDS", 0.01)


def ranges(served: Served) -> list[str | None]:
    return [request.get("Range") for request in served.requests]


def test_complete_file_is_downloaded_only_once(served: Served, partial: Path) -> None:
    for _ in range(2):
        download(served.url, partial)
        assert partial.read_bytes() == CONTENT
        assert served.sent == len(CONTENT)
    assert ranges(served)[0] is None
    served.content = CONTENT[:1000]  # less than is there
    download(served.url, partial)
    assert partial.read_bytes() == CONTENT[:1000]


@pytest.mark.parametrize("fault", ["cut 100000", "stall 100000"])
def test_interrupted_download_resumes(
    fault: str, served: Served, partial: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "stall" in fault:
        monkeypatch.setattr(downloads, "STALL_SECONDS", 3.0)
    served.faults = [fault, "cut 50000"]
    download(served.url, partial)
    assert partial.read_bytes() == CONTENT
    assert ranges(served) == [None, "bytes=100000-", "bytes=150000-"]
    assert served.requests[1]["If-Range"] == served.tag
    assert served.sent == len(CONTENT), "nothing was sent twice"


@pytest.mark.parametrize("changed", [False, True])
def test_later_call_resumes_unless_the_file_changed(
    changed: bool, served: Served, partial: Path
) -> None:
    served.faults = ["cut 100000"] + ["status 503"] * downloads.ATTEMPTS
    with pytest.raises(DownloadError, match="503 Service Unavailable"):
        download(served.url, partial)
    assert partial.read_bytes() == CONTENT[:100_000]
    if changed:
        served.content, served.tag = CONTENT[::-1], '"2"'
    download(served.url, partial)
    assert partial.read_bytes() == served.content
    assert ranges(served)[-1] == "bytes=100000-"
    assert served.sent == len(CONTENT) + (100_000 if changed else 0)


def test_next_process_resumes_after_a_kill(served: Served, partial: Path) -> None:
    served.faults = ["slow"]
    code = (
        "import sys, pathlib, tasks.datasets.download as downloads\n"
        "downloads.download(sys.argv[1], pathlib.Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, served.url, str(partial)]
    child = subprocess.Popen(command, cwd=CHECKOUT)
    deadline = time.monotonic() + 300
    while not (partial.exists() and partial.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    kept = partial.stat().st_size
    assert 0 < kept < len(CONTENT)
    download(served.url, partial)
    assert partial.read_bytes() == CONTENT
    assert ranges(served) == [None, f"bytes={kept}-"]


@pytest.mark.parametrize(
    ("server", "faults", "requested"),
    [
        ({"tag": None}, ["cut 100000"], [None, None]),
        ({"tag": 'W/"1"'}, ["cut 100000"], [None, None]),
        ({"ranges": False}, ["cut 100000"], [None, "bytes=100000-"]),
        ({}, ["cut 100000", "shift"], [None, "bytes=100000-", None]),
        ({}, ["status 500", "status 503", "status 429", "cut 0"], [None] * 5),
    ],
)
def test_restarts_where_it_cannot_resume(
    server: dict[str, Any],
    faults: list[str],
    requested: list[str | None],
    served: Served,
    partial: Path,
) -> None:
    vars(served).update(server, faults=faults)
    download(served.url, partial)
    assert partial.read_bytes() == CONTENT
    assert ranges(served) == requested


@pytest.mark.parametrize("status", ["404 Not Found", "403 Forbidden", "410 Gone"])
def test_client_errors_are_not_retried(status: str, served: Served, partial: Path) -> None:
    served.faults = [f"status {status[:3]}"]
    with pytest.raises(DownloadError, match=rf"made\.json returned HTTP {status}$"):
        download(served.url, partial)
    assert len(served.requests) == 1


def test_gives_up_after_repeated_short_responses(served: Served, partial: Path) -> None:
    served.ranges, served.faults = False, ["cut 1000"] * 100
    with pytest.raises(DownloadError, match=r"made\.json: .*(1000|incomplete|peer)"):
        download(served.url, partial)
    assert len(served.requests) == downloads.ATTEMPTS


def test_redirects_are_followed(served: Served, partial: Path) -> None:
    served.faults = ["to /elsewhere.json", f"to {served.url}/again", "cut 10", "to /moved"]
    download(served.url, partial)
    assert partial.read_bytes() == CONTENT
    assert served.requests[-1]["Range"] == "bytes=10-"


@pytest.mark.parametrize(
    ("targets", "reason"),
    [
        (["file:///etc/passwd"], "unsafe"),
        (["ftp://127.0.0.1/x"], "unsafe"),
        (["/round"] * 99, "more than 10 times"),
    ],
)
def test_rejects_unsafe_or_endless_redirects(
    targets: list[str], reason: str, served: Served, partial: Path
) -> None:
    served.faults = [f"to {target}" for target in targets]
    with pytest.raises(DownloadError, match=reason):
        download(served.url, partial)
    assert not partial.exists()


def redirect(source: str, target: str) -> httpx.Response:
    return httpx.Response(302, headers={"Location": target}, request=httpx.Request("GET", source))


def test_rejects_redirects_from_https_to_http() -> None:
    safe, unsafe = "https://a.example/x", "http://a.example/x"
    downloads.require_safe_redirect(redirect(unsafe, safe))
    downloads.require_safe_redirect(redirect(unsafe, unsafe))
    with pytest.raises(DownloadError, match="unsafe and was not followed"):
        downloads.require_safe_redirect(redirect(safe, unsafe))


def test_full_disk_is_detected_before_downloading(
    served: Served, partial: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "SPARE_BYTES", 1 << 60)
    with pytest.raises(
        UserError, match=r"^Not enough disk space: the download needs 0\.3 MB, .* Free up space"
    ):
        download(served.url, partial)
