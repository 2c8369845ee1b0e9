"""Object stores: a small S3 server on loopback, and local files by URL."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest
from prefect import flow

from flows.common.data_files import find_files
from flows.common.parameters import DataParameters
from infra.errors import UserError
from tasks.datasets.object_store import fetch_object, find_objects

OBJECTS = {
    "months/may.json": b"may" * 1000,
    "months/june.json": b"june",
    "months/deep/dev.json": b"dev",
    "months/readme.md": b"read me",
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
    with ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"?endpoint_override=127.0.0.1:{server.server_port}&scheme=http&region=x"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("s3://bucket/months", "dev.json june.json may.json readme.md"),
        ("s3://bucket/months/", "dev.json june.json may.json readme.md"),
        ("s3://bucket/months/*.json", "june.json may.json"),
        ("s3://bucket/months/m*", "may.json"),
        ("s3://bucket/months/may.json", "may.json"),
    ],
)
def test_finds_objects_by_uri(uri: str, names: str, store: str) -> None:
    assert [stored.name for stored in find_objects(uri + store)] == names.split()


def test_copies_the_whole_object(store: str, tmp_path: Path) -> None:
    (stored,) = find_objects("s3://bucket/months/may.json" + store)
    assert fetch_object(tmp_path, stored) == {"bytes": 3000}
    assert (tmp_path / "may.json").read_bytes() == OBJECTS["months/may.json"]


@pytest.mark.usefixtures("prefect_server", "root")
def test_store_folder_is_a_dataset(store: str) -> None:
    data = DataParameters(dataset="s3://bucket/months/" + store)
    files = flow(lambda: find_files(data), name="finding")()
    assert files.name == "months"
    assert [file.name for file in files.train] == ["dev.json", "june.json", "may.json"]


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
        ("s3://key:hidden@bucket/a.json", "contains a password"),
    ],
)
def test_store_errors_hide_secrets(uri: str, message: str, store: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        find_objects(uri + store)
    assert "hidden" not in str(caught.value)
