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
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "BACK_OFF_SECONDS", 0.01)


def taken(address: str) -> Path:
    """The file that a flow would train on."""
    data = DataParameters(dataset="mine", train_files=[address])
    (file,) = flow(lambda: find_files(data), name="finding")().train
    return file


def test_downloads_again_only_if_the_etag_changes(served: Served) -> None:
    first = taken(served.url)
    assert (first.name, first.read_bytes()) == ("made.json", served.content)
    sent = served.sent
    assert taken(served.url) == first
    assert served.sent - sent <= len(served.content), "asked for at most once more, by its headers"

    served.content, served.tag = b'{"data": [1]}', '"2"'
    second = taken(served.url)
    assert json.loads(second.read_text()) == {"data": [1]}
    assert first.exists() and first != second


def test_file_without_etag_is_downloaded_again(served: Served) -> None:
    served.tag = None
    first = taken(served.url)
    served.content = b'{"data": [1]}'
    assert json.loads(taken(served.url).read_text()) == {"data": [1]} and first.exists()


def test_temporary_server_errors_are_retried(served: Served) -> None:
    served.faults = ["status 503", "status 500"]
    assert taken(served.url).read_bytes() == served.content


@pytest.mark.parametrize(
    ("fault", "sentence"), [("status 404", "answers 404"), ("status 403", "answers 403")]
)
def test_client_errors_suggest_checking_the_address(
    fault: str, sentence: str, served: Served
) -> None:
    served.faults = [fault]
    with pytest.raises(UserError, match=f"{sentence}.*: check the address"):
        taken(served.url)


def test_rejects_passwords_in_addresses(served: Served) -> None:
    with pytest.raises(UserError, match="holds a secret") as refused:
        taken(served.url.replace("//", "//me:hidden@"))
    assert "hidden" not in str(refused.value)
    assert not served.asked


def test_rejects_html_pages(served: Served) -> None:
    with pytest.raises(UserError, match="no data by its name"):
        taken(served.url.replace(".json", ".html"))
