"""Data files by URL, downloaded from a real server on loopback."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect import flow

from flows.common.data_files import find_files
from flows.common.parameters import DataParameters
from infra.errors import UserError
from tasks.datasets import download
from tests.factories.file_server import Served, serving

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("prefect_server", "root")]


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(Served(b'{"data": []}')) as server:
        yield server


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "BACK_OFF_SECONDS", 0.01)


def fetched_training_file(url: str) -> Path:
    """The file that a flow would train on."""
    data = DataParameters(dataset="mine", train_files=[url])
    (file,) = flow(lambda: find_files(data), name="finding")().train
    return file


def test_downloads_again_only_if_the_etag_changes(served: Served) -> None:
    first = fetched_training_file(served.url)
    assert (first.name, first.read_bytes()) == ("made.json", served.content)
    sent = served.sent
    assert fetched_training_file(served.url) == first
    assert served.sent - sent <= len(served.content), "requested at most once more, for its headers"

    served.content, served.tag = b'{"data": [1]}', '"2"'
    second = fetched_training_file(served.url)
    assert json.loads(second.read_text()) == {"data": [1]}
    assert first.exists() and first != second


def test_file_without_etag_is_downloaded_again(served: Served) -> None:
    served.tag = None
    first = fetched_training_file(served.url)
    served.content = b'{"data": [1]}'
    assert json.loads(fetched_training_file(served.url).read_text()) == {"data": [1]}
    assert first.exists()


def test_temporary_server_errors_are_retried(served: Served) -> None:
    served.faults = ["status 503", "status 500"]
    assert fetched_training_file(served.url).read_bytes() == served.content


@pytest.mark.parametrize(
    ("fault", "message"), [("status 404", "returned HTTP 404"), ("status 403", "returned HTTP 403")]
)
def test_client_errors_suggest_checking_the_url(fault: str, message: str, served: Served) -> None:
    served.faults = [fault]
    with pytest.raises(UserError, match=rf"{message}.*\. Check the URL"):
        fetched_training_file(served.url)


def test_rejects_passwords_in_urls(served: Served) -> None:
    with pytest.raises(UserError, match="contains a password") as caught:
        fetched_training_file(served.url.replace("//", "//me:hidden@"))
    assert "hidden" not in str(caught.value)
    assert not served.requests


def test_rejects_html_pages(served: Served) -> None:
    with pytest.raises(UserError, match="unsupported file name"):
        fetched_training_file(served.url.replace(".json", ".html"))
