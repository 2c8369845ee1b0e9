"""Files fetched by name from a mirror or a real server; wrong content is rejected."""

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect import flow

from infra.errors import UserError
from tasks.datasets import download as downloads
from tasks.datasets.fetch import Source, availability, downloads_folder, fetch
from tests.factories.file_server import Served, serving

CONTENT = b'{"version": "1.1", "data": []}\n' * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def source(url: str | None = None, sha256: str | None = DIGEST) -> Source:
    return Source(name="made.json", sha256=sha256, url=url)


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(Served(CONTENT)) as server:
        yield server


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.delenv("BIDAFLOW_MIRROR", raising=False)
    monkeypatch.setattr(downloads, "BACK_OFF_SECONDS", 0.01)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror with made.json in a nested folder."""
    (tmp_path / "mirror" / "deep" / "down").mkdir(parents=True)
    (tmp_path / "mirror" / "deep" / "down" / "made.json").write_bytes(CONTENT)
    monkeypatch.setenv("BIDAFLOW_MIRROR", str(tmp_path / "mirror"))
    return tmp_path / "mirror"


def test_mirror_file_of_the_digest_replaces_the_url(mirror: Path, out: Path) -> None:
    (mirror / "another").mkdir()
    (mirror / "another" / "made.json").write_bytes(b"{}")
    assert availability(source()) == "in the mirror"
    assert fetch(out, source("http://127.0.0.1:9/made.json")) == {"bytes": len(CONTENT)}
    assert (out / "made.json").read_bytes() == CONTENT


def test_falls_back_to_url_if_the_mirror_lacks_a_file(
    mirror: Path, out: Path, served: Served
) -> None:
    (mirror / "deep" / "down" / "made.json").unlink()
    assert availability(source(served.url)) == "to download"
    assert fetch(out, source(served.url)) == {"bytes": len(CONTENT)}
    assert (out / "made.json").read_bytes() == CONTENT
    assert list(downloads_folder().iterdir()) == [], "nothing is left of a finished download"


def test_mirror_url_precedes_the_official_one(
    out: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIDAFLOW_MIRROR", f"{served.url.rpartition('/')[0]}/mirror/")
    fetch(out, source("http://127.0.0.1:9/made.json"))
    served.faults = ["status 404"]
    fetch(out, source(served.url))
    paths = [request["path"] for request in served.requests]
    assert paths == ["/mirror/made.json", "/mirror/made.json", "/made.json"]


def test_error_explains_the_manual_download(out: Path) -> None:
    with pytest.raises(UserError, match=r"made\.json .* BIDAFLOW_MIRROR"):
        fetch(out, source())
    assert availability(source()) == "unavailable"
    with pytest.raises(UserError) as caught:
        fetch(out, source("http://127.0.0.1:9/made.json"))
    message = str(caught.value)
    assert "refused" in message and "Download http://127.0.0.1:9/made.json by hand" in message
    assert "BIDAFLOW_MIRROR" in message and "\n" not in message
    assert not list(out.iterdir())


def test_wrong_digest_is_rejected_and_downloaded_again(out: Path, served: Served) -> None:
    served.content = CONTENT[:-1]
    with pytest.raises(UserError, match=rf"{served.url} has SHA-256 .*, expected SHA-256 {DIGEST}"):
        fetch(out, source(served.url))
    assert not list(out.iterdir())
    assert list(downloads_folder().iterdir()) == []
    served.content = CONTENT
    fetch(out, source(served.url))
    assert "Range" not in served.requests[-1]


def test_size_and_zip_checksums_verify_without_digest(out: Path, served: Served) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("vectors.vec", CONTENT)
    served.content = packed.getvalue()
    known = Source(name="made.zip", bytes=len(served.content), url=served.url)
    fetch(out, known)
    served.content = served.content.replace(b"version", b"Version", 1)
    with pytest.raises(UserError, match=r"member vectors\.vec fails its checksum"):
        fetch(out, known)
    with pytest.raises(UserError, match=r"has \d+ bytes, expected 7 bytes"):
        fetch(out, Source(name="made.zip", bytes=7, url=served.url))


def test_concurrent_fetches_both_get_the_file(tmp_path: Path, served: Served) -> None:
    served.faults = ["slow"]
    folders = [tmp_path / "one", tmp_path / "two"]
    threads = []
    for folder in folders:
        folder.mkdir()
        threads.append(threading.Thread(target=fetch, args=(folder, source(served.url))))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert all((folder / "made.json").read_bytes() == CONTENT for folder in folders)


@pytest.mark.usefixtures("prefect_server")
def test_failed_stage_leaves_its_download_for_a_rerun(served: Served, root: Path) -> None:
    from tasks.stages import fetch_stage

    served.faults = ["cut 10000"] + ["status 500"] * downloads.ATTEMPTS
    with pytest.raises(UserError, match="500 Internal Server Error"):
        flow(lambda: fetch_stage(source(served.url)), name="fetch")()
    assert [file for file in (root / "stages" / "fetch").rglob("*") if file.is_file()] == []
    output = flow(lambda: fetch_stage(source(served.url)), name="fetch")()
    assert (output.folder / "made.json").read_bytes() == CONTENT
    assert served.sent == len(CONTENT)
    assert availability(source(served.url)) == "fetched"
