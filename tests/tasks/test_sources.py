"""Files of data: copied, downloaded from a real server, found, and divided by articles."""

import hashlib
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prefect import flow

from tasks.catalogue import Source
from tasks.errors import UserError
from tasks.sources import by_split, choose_part, fetch, ingest_files, squad_files
from tasks.squad import Article, read_articles
from tasks.tiny import write_tiny

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


def articles(number: int) -> list[Article]:
    return [Article(title=str(i), paragraphs=[]) for i in range(number)]


@given(number=st.integers(2, 60), share=st.floats(0.01, 0.99), seed=st.integers(min_value=0))
def test_train_and_dev_share_all_articles_and_neither_is_empty(
    number: int, share: float, seed: int
) -> None:
    given = articles(number)
    train, dev = (choose_part(given, part, share, seed) for part in ("train", "dev"))
    assert sorted(train + dev, key=given.index) == given
    assert train and dev
    assert abs(len(dev) - share * number) <= 1
    assert dev == choose_part(given, "dev", share, seed)
    assert choose_part(given, "all", share, seed) == given


def test_the_seed_draws_the_articles() -> None:
    drawn = {tuple(a.title for a in choose_part(articles(20), "dev", 0.1, s)) for s in range(20)}
    assert len(drawn) > 10


def test_one_article_is_not_divided() -> None:
    assert choose_part(articles(1), "all", 0.1, 1) == articles(1)
    with pytest.raises(UserError, match="one article"):
        choose_part(articles(1), "train", 0.1, 1)


def test_articles_of_equal_titles_are_divided_like_others() -> None:
    untitled = [Article(title="unknown_title", paragraphs=[]) for _ in range(10)]
    assert len(choose_part(untitled, "dev", 0.2, 3)) == 2
    assert len(choose_part(untitled, "train", 0.2, 3)) == 8


def test_parts_of_several_files_are_ingested(tmp_path: Path) -> None:
    write_tiny(tmp_path, 3)
    files = squad_files(tmp_path)
    given = [article for file in files for article in read_articles(file)]
    titles = {}
    for part in ("train", "dev"):
        (tmp_path / part).mkdir()
        facts = ingest_files(tmp_path / part, files, part, 0.25, 5)
        assert facts["articles"] == len(choose_part(given, part, 0.25, 5))
        table = pq.read_table(tmp_path / part / "contexts.parquet", columns=["text"])
        titles[part] = set(table["text"].to_pylist())
    contexts = {paragraph.context for article in given for paragraph in article.paragraphs}
    assert titles["train"] | titles["dev"] == contexts


def test_files_are_found_in_folders(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b.json"
    deep.parent.mkdir()
    for file in (deep, tmp_path / "c.json", tmp_path / "notes.txt"):
        file.touch()
    assert squad_files(tmp_path) == [deep, tmp_path / "c.json"]
    assert squad_files(tmp_path / "notes.txt") == [tmp_path / "notes.txt"]


@pytest.mark.parametrize("name", ["empty", "nowhere", "squad-v3"])
def test_nothing_there_is_refused_by_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=f"{name} is neither"):
        squad_files(tmp_path / name)


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
