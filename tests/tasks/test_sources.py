"""Files of data: copied, downloaded from a real server, found, and divided by articles."""

import hashlib
import re
import shutil
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from prefect import flow

from tasks.catalogue import Source
from tasks.errors import UserError
from tasks.sources import by_split, data_files, fetch

CONTENT = b'{"version": "1.1", "data": []}\n' * 100
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def source(url: str | None = None, sha256: str = DIGEST) -> Source:
    return Source(name="made.json", sha256=sha256, url=url)


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder; beside it a path that points elsewhere and one that breaks off."""

    def do_GET(self) -> None:
        if self.path == "/moved.json":
            self.send_response(302)
            self.send_header("Location", "/made.json")
            self.end_headers()
        elif self.path == "/short.json":
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[:1000])
            self.close_connection = True
        else:
            super().do_GET()

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Address of a server that holds the made file."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "made.json").write_bytes(CONTENT)

    def handler(*args: object) -> Handler:
        return Handler(*args, directory=str(folder))  # type: ignore[arg-type]

    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BIDAFLOW_MIRROR", raising=False)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror with the made file in one of its folders."""
    (tmp_path / "mirror" / "deep" / "down").mkdir(parents=True)
    (tmp_path / "mirror" / "deep" / "down" / "made.json").write_bytes(CONTENT)
    monkeypatch.setenv("BIDAFLOW_MIRROR", str(tmp_path / "mirror"))
    return tmp_path / "mirror"


def test_a_mirror_stands_in_for_the_address(mirror: Path, out: Path) -> None:
    assert fetch(out, source("http://127.0.0.1:9/made.json")) == {"bytes": len(CONTENT)}
    assert (out / "made.json").read_bytes() == CONTENT


def test_what_the_mirror_lacks_comes_from_the_address(mirror: Path, out: Path, server: str) -> None:
    shutil.rmtree(mirror / "deep")
    assert fetch(out, source(f"{server}/made.json")) == {"bytes": len(CONTENT)}


@pytest.mark.parametrize("path", ["made.json", "moved.json"])
def test_a_download_is_the_file(path: str, out: Path, server: str) -> None:
    assert fetch(out, source(f"{server}/{path}")) == {"bytes": len(CONTENT)}
    assert (out / "made.json").read_bytes() == CONTENT


@pytest.mark.parametrize("path", ["missing.json", "short.json"])
def test_what_the_host_fails_to_give_is_an_error_of_the_network(
    path: str, out: Path, server: str
) -> None:
    with pytest.raises(httpx.HTTPError):
        fetch(out, source(f"{server}/{path}"))


def test_without_address_and_mirror_it_says_what_to_set(out: Path) -> None:
    with pytest.raises(UserError, match=r"made\.json .* BIDAFLOW_MIRROR"):
        fetch(out, source())
    assert not list(out.iterdir())


@pytest.mark.usefixtures("prefect_server")
def test_another_content_is_refused_and_nothing_is_kept(mirror: Path, root: Path) -> None:
    from tasks.steps import fetching

    mirrored = mirror / "deep" / "down" / "made.json"
    mirrored.write_bytes(CONTENT[:-1])
    with pytest.raises(UserError) as refused:
        flow(lambda: fetching(source()), name="fetch")()
    found = hashlib.sha256(CONTENT[:-1]).hexdigest()
    assert all(part in str(refused.value) for part in (str(mirrored), found, DIGEST))
    assert not list((root / "stages" / "fetch").iterdir())

    mirrored.write_bytes(CONTENT)
    mended = flow(lambda: fetching(source()), name="fetch")()
    assert (mended.folder / "made.json").read_bytes() == CONTENT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files of data and others, a hidden one, and a zip."""
    for name in ("b/c.json", "a.jsonl.gz", "d.PARQUET", "notes.txt", ".hidden.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    with zipfile.ZipFile(tmp_path / "e.zip", "w") as archive:
        for name in ("train.json", "deep/dev.json.xz", "readme.md"):
            archive.writestr(name, name)
    return tmp_path


@pytest.mark.parametrize(
    ("named", "files"),
    [
        ("", "a.jsonl.gz b/c.json d.PARQUET e.zip/deep/dev.json.xz e.zip/train.json"),
        ("b", "b/c.json"),
        ("notes.txt", "notes.txt"),
        ("e.zip", "e.zip/deep/dev.json.xz e.zip/train.json"),
        ("e.zip/train.json", "e.zip/train.json"),
        ("**/*.json", "b/c.json"),
        ("[ab]*", "a.jsonl.gz b/c.json"),
    ],
)
def test_files_are_found(named: str, files: str, folder: Path) -> None:
    assert data_files(str(folder / named)) == [folder / file for file in files.split()]


def test_a_name_that_looks_like_a_glob_is_a_name(tmp_path: Path) -> None:
    (tmp_path / "a[1].json").touch()
    assert data_files(str(tmp_path / "a[1].json")) == [tmp_path / "a[1].json"]


@pytest.mark.parametrize("name", ["empty", "nowhere", "squad-v3", "*.json", "e.zip"])
def test_nothing_there_is_refused_by_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with zipfile.ZipFile(tmp_path / "e.zip", "w"):
        pass
    with pytest.raises(UserError, match=f"{re.escape(name)} is neither"):
        data_files(str(tmp_path / name))


@pytest.mark.parametrize(
    ("names", "train", "dev"),
    [
        ("train-a dev-a", "train-a", "dev-a"),
        ("train dev-1 train-2 dev-2 test", "train train-2", "dev-1 dev-2"),
        ("train-1 train-2", "train-1 train-2", ""),
        ("dev-1", "dev-1", ""),
        ("mills inns", "mills inns", ""),
    ],
)
def test_names_tell_train_from_dev(names: str, train: str, dev: str) -> None:
    files, *expected = ([Path("train") / n for n in row.split()] for row in (names, train, dev))
    assert list(by_split(files)) == expected
