"""Data files: found by the path that a user gives, and assigned to splits by file name; names of
datasets from their paths and URLs."""

import logging
import re
import zipfile
from pathlib import Path

import pytest

from infra.errors import UserError
from tasks.datasets.fetch import Source
from tasks.datasets.paths import (
    assign_splits,
    dataset_name,
    find_data_files,
    require_valid_name,
    warn_of_dev_files,
)
from tests.factories.permissions import lock


def find_local(path: str) -> list[Path | Source]:
    """The data files at a path; no remote file is fetched."""
    return find_data_files(path, lambda source: pytest.fail(f"fetched {source}"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with data files, other files, hidden files and folders, and a zip archive."""
    data = ("b/c.json", "a.jsonl.gz", "d.PARQUET", "f.ndjson")
    for name in (*data, "notes.txt", ".hidden.json", ".saved/c.json", "b/.saved/deep/c.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(name)
    with zipfile.ZipFile(tmp_path / "e.zip", "w") as archive:
        for name in ("train.json", "deep/dev.json.xz", "readme.md"):
            archive.writestr(name, name)
    return tmp_path


ALL = "a.jsonl.gz b/c.json d.PARQUET e.zip/deep/dev.json.xz e.zip/train.json f.ndjson"


@pytest.mark.parametrize(
    ("named", "files"),
    [
        ("", ALL),
        ("b", "b/c.json"),
        ("b/.saved", "b/.saved/deep/c.json"),
        ("notes.txt", "notes.txt"),
        ("e.zip", "e.zip/deep/dev.json.xz e.zip/train.json"),
        ("e.zip/train.json", "e.zip/train.json"),
        ("**/*.json", "b/c.json"),
        ("[ab]*", "a.jsonl.gz b/c.json"),
        ("[bn]*", "b/c.json"),
        ("*", ALL),
        ("**", ALL),
    ],
)
def test_finds_files_by_path_glob_or_archive(named: str, files: str, folder: Path) -> None:
    paths = find_local(str(folder / named))
    assert sorted(paths) == [folder / file for file in files.split()]


def test_literal_brackets_are_not_a_glob(tmp_path: Path) -> None:
    (tmp_path / "a[1].json").touch()
    assert find_local(str(tmp_path / "a[1].json")) == [tmp_path / "a[1].json"]


@pytest.mark.parametrize("name", ["nowhere", "squad-v3", "*.json", "*.md", "**"])
def test_error_names_the_missing_source(name: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    with pytest.raises(UserError, match=f"{re.escape(name)} is neither"):
        find_local(str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "others"), [("empty", ""), ("notes", ", but a.tar.gz"), ("e.zip", "")]
)
def test_error_names_a_place_without_data(name: str, others: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.tar.gz").touch()
    with zipfile.ZipFile(tmp_path / "e.zip", "w"):
        pass
    names = ".json, .jsonl, .ndjson, .csv, .tsv or .parquet"
    message = f"{name} has no {names} files{others}. Check the path, unpack archives, or save"
    with pytest.raises(UserError, match=re.escape(message)):
        find_local(str(tmp_path / name))


@pytest.mark.parametrize("name", ["~nosuchuser/a.json", f"{'x' * 300}.json", "{}/locked/a.json"])
def test_unreadable_path_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(tmp_path / "locked", monkeypatch)
    name = name.format(tmp_path)
    with pytest.raises(UserError, match=f"^{name} can't be read "):
        find_local(name)


def test_unlisted_folder_suggests_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError

    (tmp_path / "notes.txt").touch()
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(UserError, match=r"nots\.txt is neither a known dataset") as refused:
        find_local(str(tmp_path / "nots.txt"))
    assert "Did you mean" not in str(refused.value)


@pytest.mark.parametrize(
    ("names", "train", "dev"),
    [
        ("train-a dev-a", "train-a", "dev-a"),
        ("train dev-1 train-2 dev-2 test", "train train-2", "dev-1 dev-2"),
        ("train-1 train-2", "train-1 train-2", ""),
        ("dev-1", "dev-1", ""),
        ("mills inns", "mills inns", ""),
        ("Train.json Dev.json", "Train.json", "Dev.json"),
    ],
)
def test_names_distinguish_train_from_dev(names: str, train: str, dev: str) -> None:
    files, *expected = ([Path("train") / n for n in row.split()] for row in (names, train, dev))
    assert [*assign_splits(files)[:2]] == expected


TRAINED = "so all 2 files are training files:"


@pytest.mark.parametrize(
    ("names", "beginnings"),
    [
        ("dev.json may.json test.json train.json", ["Not used, {neither}: may.json, test.json"]),
        ("dev train 0 1 2 3 4 5 6", ["Not used, {neither}: 0, 1, 2, 3, 4, …"]),
        (
            "test train",
            [f"No file name begins with dev, {TRAINED} test, train. To evaluate on"],
        ),
        ("dev-1 may", [f"No file name begins with train, {TRAINED} dev-1, may. To train only on"]),
        ("dev-1 dev-2", [f"No file name begins with train, {TRAINED} dev-1, dev-2. To train only"]),
        *((names, []) for names in ("train-1 train-2", "mills inns", "dev-1", "train dev")),
    ],
)
def test_use_of_files_is_named_if_in_doubt(
    names: str,
    beginnings: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(logging.getLogger("prefect"), "propagate", True)
    assign_splits([Path(name) for name in names.split()])
    neither = "as the names begin with neither train nor dev"
    for line, beginning in zip(caplog.messages, beginnings, strict=True):
        assert line.startswith(beginning.format(neither=neither))


def test_dev_files_among_training_files_are_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("prefect"), "propagate", True)
    for names in ("dev.json", "train-1 train-2", "Dev.json train.json"):
        warn_of_dev_files([Path(name) for name in names.split()])
    (line,) = caplog.messages
    assert line.startswith("Used for training, although the names begin with dev: Dev.json. ")


@pytest.mark.parametrize(
    ("typed", "meant"), [("squad-v1", "squad-v1.1"), ("{}/nots.txt", "{}/notes.txt")]
)
def test_unknown_name_suggests_the_closest(typed: str, meant: str, folder: Path) -> None:
    meant = meant.format(folder)
    with pytest.raises(UserError, match=re.escape(f"Did you mean {meant!r}?")):
        find_local(typed.format(folder))


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("squad-v1.1", "squad-v1.1"),
        ("folder/my-squad-v1.1/", "my-squad-v1.1"),
        ("~/a b (1).JSON.gz", "a-b-1"),
        ("x/2026*.json", "2026"),
        ("x/*.json", "data"),
        ("s3://bucket/tickets/?region=eu-west-1", "tickets"),
        ("https://me:hidden@example.org/?token=hidden", "example.org"),
        ("/", "data"),
        ("~nosuchuser/own.json", "own"),
        (f"{'x' * 100}.json", "x" * 100),
    ],
)
def test_dataset_name_is_derived_from_its_path(place: str, name: str) -> None:
    assert dataset_name(place) == name


def test_link_gives_the_dataset_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "2026-12.json").touch()
    (tmp_path / "tickets.json").symlink_to(tmp_path / "2026-12.json")
    assert dataset_name(str(tmp_path / "tickets.json")) == "tickets"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("data/embeddings.json", r"'embeddings' is reserved.* data\.dataset to another name"),
        ("comparisons", r"'comparisons' is reserved.* data\.dataset to another name"),
        (f"{'é' * 51}.json", r"é' has more than 100 bytes.* data\.dataset to a shorter name"),
    ],
)
def test_unusable_dataset_name_is_refused(place: str, message: str) -> None:
    name = dataset_name(place)
    with pytest.raises(UserError, match=message):
        require_valid_name(name)
