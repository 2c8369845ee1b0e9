"""The server of the report pages, over HTTP."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from infra.services.reports_server import ReportsHandler
from tests.factories.http_server import http_server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    (folder / "tickets").mkdir(parents=True)
    (folder / "index.html").write_text("all runs")
    (folder / "tickets" / "run.html").write_text("a run")
    (tmp_path / "secret.txt").write_text("not a report")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    return folder


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with http_server(partial(ReportsHandler, directory=str(folder))) as url:
        yield url


def test_serves_pages_that_browsers_check_for_changes(url: str) -> None:
    for path, text in (("/", "all runs"), ("/tickets/run.html", "a run")):
        response = httpx.get(url + path)
        assert (response.status_code, response.text) == (200, text)
        assert response.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/tickets/", "/link.txt", "/..%2fsecret.txt", "/../secret.txt"])
def test_neither_lists_folders_nor_leaves_its_own(url: str, path: str) -> None:
    response = httpx.get(url + path)
    assert response.status_code == 404
    assert "run.html" not in response.text and "not a report" not in response.text


def test_other_host_names_get_nothing(url: str) -> None:
    """They may belong to a site that lets its name lead to this machine."""
    for host in ("other.example", "127.0.0.1.other.example:5100", ""):
        response = httpx.get(url, headers={"Host": host})
        assert (response.status_code, "all runs" in response.text) == (400, False)
    assert httpx.get(url, headers={"Host": "localhost:5100"}).text == "all runs"
