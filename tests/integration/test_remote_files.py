"""Data files by URL from a server on loopback, and objects of a small S3 server and local files."""

import base64
import json
import re
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest
from prefect import flow

from flows.common.data import find_files
from flows.common.parameters import DataParameters
from infra.artifacts.manifest import read_manifest
from infra.errors import UserError
from tasks.datasets import download
from tasks.datasets.fetch import Source, fetch
from tasks.datasets.paths import find_remote_files
from tests.factories.file_server import Served, serving
from tests.factories.http_server import http_server

# Files at URLs


def web(test: Any) -> Any:
    """Marks of a test that fetches files of `served` in a flow."""
    return pytest.mark.heavy(pytest.mark.usefixtures("prefect_server", "root")(test))


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


@web
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


@web
def test_file_without_etag_is_downloaded_again(served: Served) -> None:
    served.tag = None
    first = fetched_training_file(served.url)
    served.content = b'{"data": [1]}'
    assert json.loads(fetched_training_file(served.url).read_text()) == {"data": [1]}
    assert first.exists()


@web
def test_temporary_server_errors_are_retried(served: Served) -> None:
    served.faults = ["status 503", "status 500"]
    assert fetched_training_file(served.url).read_bytes() == served.content


@web
@pytest.mark.parametrize(
    ("fault", "message"), [("status 404", "returned HTTP 404"), ("status 403", "returned HTTP 403")]
)
def test_client_errors_suggest_checking_the_url(fault: str, message: str, served: Served) -> None:
    served.faults = [fault]
    with pytest.raises(UserError, match=rf"{message}.*\. Check the URL"):
        fetched_training_file(served.url)


@web
def test_secrets_are_sent_but_never_stored_or_logged(
    served: Served, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "httpx")
    served.faults = ["status 503"]
    with_password = served.url.replace("//", "//me:sw0rdfish@")
    file = fetched_training_file(f"{with_password}?token=sw0rdfish")
    assert file.read_bytes() == served.content
    assert {request["path"] for request in served.requests} == {"/made.json?token=sw0rdfish"}
    credentials = base64.b64encode(b"me:sw0rdfish").decode()
    assert {r["Authorization"] for r in served.requests} == {f"Basic {credentials}"}
    assert "sw0rdfish" not in caplog.text and "token=***" in caplog.text
    written = [path for path in root.rglob("*") if path.is_file()]
    assert not [path for path in written if b"sw0rdfish" in path.read_bytes()]
    address = read_manifest(file.parent)["inputs"]["source"]["url"]
    assert address == served.url.replace("//", "//***@") + "?token=***"


@web
def test_new_token_does_not_fetch_the_file_again(served: Served) -> None:
    first = fetched_training_file(f"{served.url}?token=sw0rdfish1")
    assert fetched_training_file(f"{served.url}?token=sw0rdfish2") == first


@web
@pytest.mark.parametrize(
    "fault", ["status 404", "to ftp://me:sw0rdfish@example.org/?sig=sw0rdfish"]
)
def test_secrets_of_a_url_are_masked_in_errors(fault: str, served: Served) -> None:
    served.faults = [fault]
    with pytest.raises(UserError, match=r"\*\*\*") as caught:
        fetched_training_file(served.url.replace("//", "//me:sw0rdfish@") + "?token=sw0rdfish")
    assert "sw0rdfish" not in str(caught.value)


@web
def test_rejects_html_pages(served: Served) -> None:
    with pytest.raises(UserError, match="unsupported file name"):
        fetched_training_file(served.url.replace(".json", ".html"))


def test_key_may_be_the_name_of_the_content() -> None:
    """Files whose addresses differ in a key are different ones, unlike those of other tokens."""

    def dump(query: str) -> dict[str, Any]:
        return Source(url=f"https://h/a?{query}", name="a.json", version="1").model_dump()

    assert dump("token=sw0rdfish1") == dump("token=sw0rdfish2")
    assert dump("key=sw0rdfish1") != dump("key=sw0rdfish2")
    assert "sw0rdfish" not in str(dump("key=sw0rdfish1"))


# Objects

OBJECTS = {
    "months/may.json": b"may" * 1000,
    "months/june.json": b"june",
    "months/deep/dev.json": b"dev",
    "months/readme.md": b"read me",
    "months/.saved/may.json": b"old",
    "months/.june.json": b"old",
}
LISTED = (
    "<Contents><Key>{}</Key><LastModified>2026-05-01T00:00:00.000Z</LastModified>"
    "<Size>{}</Size><ETag>1</ETag></Contents>"
)
LIST = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "<KeyCount>{}</KeyCount><IsTruncated>false</IsTruncated>{}</ListBucketResult>"
)


class Store(BaseHTTPRequestHandler):
    """The subset of S3 that reading needs: HEAD and GET of objects, and listing by prefix."""

    def do_HEAD(self) -> None:
        self.answer(b"")

    def do_GET(self) -> None:
        prefix = parse_qs(urlsplit(self.path).query).get("prefix", [""])[0]
        sizes = {key: len(content) for key, content in OBJECTS.items() if key.startswith(prefix)}
        listed = "".join(LISTED.format(escape(key), size) for key, size in sizes.items())
        self.answer(LIST.format(len(sizes), listed).encode())

    def answer(self, listed: bytes) -> None:
        key = unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]
        content = OBJECTS.get(key, b"") if key else listed
        byte_range = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        part = content[int(byte_range[1]) : int(byte_range[2]) + 1] if byte_range else content
        self.send_response(404 if key and key not in OBJECTS else 206 if byte_range else 200)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Last-Modified", "Fri, 01 May 2026 00:00:00 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(part)

    def log_message(self, *args: object) -> None:
        """Suppress the request log."""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The query string that directs an s3:// URI to the store on loopback."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with http_server(Store) as url:
        yield f"?endpoint_override={url.removeprefix('http://')}&scheme=http&region=x"


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("s3://bucket/months", "dev.json june.json may.json readme.md"),
        ("s3://bucket/months/", "dev.json june.json may.json readme.md"),
        ("s3://bucket/months/*.json", "june.json may.json"),
        ("s3://bucket/months/m*", "may.json"),
        ("s3://bucket/months/*/*.json", "dev.json"),
        ("s3://bucket/months/**", "dev.json june.json may.json readme.md"),
        ("s3://bucket/months/**/*.json", "dev.json june.json may.json"),
        ("s3://bucket/**/d*/*", "dev.json"),
        ("s3://bucket/months/may.json", "may.json"),
    ],
)
def test_finds_objects_by_uri(uri: str, names: str, store: str) -> None:
    assert [stored.name for stored in find_remote_files(uri + store)] == names.split()


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1/..%5C..%5Ca.json", "http://127.0.0.1:1/a/.."])
def test_url_with_an_unsafe_file_name_is_refused(uri: str) -> None:
    with pytest.raises(UserError, match=r"has a file or folder named .* could be written outsi"):
        find_remote_files(uri)


def test_object_with_an_unsafe_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a\\..\\..\\b.json").touch()
    with pytest.raises(UserError, match=f"{tmp_path} has a file or folder named '.*b.json'"):
        find_remote_files(tmp_path.as_uri())


def test_copies_the_whole_object(store: str, tmp_path: Path) -> None:
    (stored,) = find_remote_files("s3://bucket/months/may.json" + store)
    assert fetch(tmp_path, stored) == {"bytes": 3000}
    assert (tmp_path / "may.json").read_bytes() == OBJECTS["months/may.json"]


@pytest.mark.usefixtures("prefect_server", "root")
def test_store_folder_is_a_dataset(store: str) -> None:
    data = DataParameters(dataset="s3://bucket/months/" + store)
    files = flow(lambda: find_files(data), name="finding")()
    assert files.name == "months"
    assert [file.name for file in files.train] == ["dev.json", "june.json", "may.json"]


@pytest.mark.usefixtures("prefect_server")
def test_only_used_objects_are_fetched(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    folder.mkdir()
    for name in ("train.json", "dev.jsonl.gz", "test.json", ".train.json", "readme.md"):
        (folder / name).touch()
    with zipfile.ZipFile(folder / "more.zip", "w") as archive:
        for name in ("train-2.json", "other.json"):
            archive.writestr(name, "{}")
    data = DataParameters(dataset=folder.as_uri())
    files = flow(lambda: find_files(data), name="finding")()
    assert [file.name for file in files.train] == ["train-2.json", "train.json"]
    assert [file.name for file in files.dev] == ["dev.jsonl.gz"]
    fetched = {file.name for file in (root / "stages" / "fetch-remote-file").glob("*/*")}
    assert fetched == {"dev.jsonl.gz", "manifest.json", "more.zip", "train.json"}


@pytest.mark.usefixtures("prefect_server", "root")
def test_changed_object_is_fetched_again(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    data = DataParameters(dataset="mine", train_files=[file.as_uri()])
    for content in ({"data": []}, {"data": [1]}):
        file.write_text(json.dumps(content))
        (copy,) = flow(lambda: find_files(data), name="finding")().train
        assert copy != file and json.loads(copy.read_text()) == content


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("s3://bucket/nothing", r"^No files found at .*nothing.* Check the URI\.$"),
        ("s3://bucket/months/*.xml", "No files found"),
        ("ftp://example.org/a.json", "Unrecognized filesystem type"),
        ("s3://key:sw0rdfish@bucket/a.json", "contains a password"),
    ],
)
def test_store_errors_hide_secrets(uri: str, message: str, store: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        find_remote_files(uri + store)
    assert "sw0rdfish" not in str(caught.value)
