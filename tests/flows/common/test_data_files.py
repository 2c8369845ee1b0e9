"""Resolution of the data parameters to files, dataset names and shares."""

import logging
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from flows.common.data_files import few_questions_training, find_evaluation_files, find_files
from flows.common.parameters import DataParameters, MixedSource
from infra.errors import UserError
from tasks.datasets.catalog import FEW_QUESTIONS


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    for name in ("a.json", "b.json"):
        (tmp_path / name).touch()
    return [str(tmp_path / "a.json"), str(tmp_path / "b.json")]


def test_own_files_override_the_catalog(two: list[str]) -> None:
    files = find_files(DataParameters(dataset="squad-v1.1", train_files=two[:1]))
    assert (files.name, files.train, files.dev) == ("squad-v1.1", [Path(two[0])], [])
    assert (files.validation_share, files.overlap) == (0.1, "refuse")
    files = find_files(DataParameters(train_files=two[:1], dev_files=two[1:]))
    assert (files.train, files.dev) == ([Path(two[0])], [Path(two[1])])
    named = DataParameters(dataset="Support tickets", train_files=two[:1])
    assert find_files(named).name == "Support-tickets", "the name that ask and rollback look up"
    assert files.name == "a", "must not compete with the champion of the default dataset"


def test_files_of_neither_split_are_kept_by_name(tmp_path: Path) -> None:
    for name in ("train.json", "dev.json", "2026-12.json"):
        (tmp_path / name).touch()
    assert find_files(DataParameters(dataset=str(tmp_path))).unused == ["2026-12.json"]
    assert find_files(DataParameters(dataset=str(tmp_path / "train.json"))).unused == []


def test_dataset_names_resolve_to_their_files(
    two: list[str],
    shared_data: Path,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    prefect_server: None,
) -> None:
    monkeypatch.setenv("BIDAFLOW_MIRROR", str(shared_data))
    data = DataParameters(
        dataset="mine",
        train_files=two[:1],
        dev_files=["squad-v1.1"],
        mix=[MixedSource(files=["squad-v1.1-recovered", two[1]], weight=0.5)],
    )
    files = find_files(data)
    assert [file.name for file in files.dev] == ["dev-v1.1.json"]
    ((mixed, weight),) = files.mixed
    assert ([file.name for file in mixed], weight) == (["train-v1.1-recovered.json", "b.json"], 0.5)


def test_evaluation_needs_no_training_files(
    tmp_path: Path,
    shared_data: Path,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    prefect_server: None,
) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "dev-v1.1.json").symlink_to(shared_data / "squad" / "dev-v1.1.json")
    monkeypatch.setenv("BIDAFLOW_MIRROR", str(mirror))
    (dev,) = find_evaluation_files(DataParameters(dataset="squad-v1.1"))
    assert dev.name == "dev-v1.1.json"
    own = tmp_path / "own"
    own.mkdir()
    for name in ("train.json", "dev.json"):
        (own / name).touch()
        (file,) = find_evaluation_files(DataParameters(dataset=str(own)))
        assert file.name == name


def test_dev_files_among_several_files_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("prefect"), "propagate", True)
    files = [tmp_path / name for name in ("train.json", "dev-own.json")]
    for file in files:
        file.touch()
    mixed = [MixedSource(files=[str(files[1])])]
    find_files(DataParameters(train_files=[str(files[0])], mix=mixed))
    assert not caplog.messages, "the options that the warning names do not concern mixed sources"
    find_files(DataParameters(train_files=[*map(str, files)]))
    (line,) = caplog.messages
    assert line.startswith("Used for training, although the names begin with dev: dev-own.json. ")


@pytest.mark.parametrize(
    ("chosen", "has_validation", "expected"),
    [
        ({}, True, {"optimizer": "adam", "learning_rate": 0.001, "patience": 3}),
        ({}, False, {"optimizer": "adam", "learning_rate": 0.001}),
        ({"patience": 5}, True, {"optimizer": "adam", "learning_rate": 0.001}),
        ({"learning_rate": 0.3, "epochs": 2}, True, {"patience": 3}),
        ({"optimizer": "adadelta"}, True, {"patience": 3}),
    ],
)
def test_few_questions_change_only_what_is_not_set(
    chosen: dict[str, Any], has_validation: bool, expected: dict[str, Any]
) -> None:
    own = DataParameters(dataset="own.json")
    few = FEW_QUESTIONS - 1
    assert few_questions_training(own, few, chosen, has_validation) == expected
    assert few_questions_training(own, FEW_QUESTIONS, chosen, has_validation) == {}
    known = DataParameters(dataset="covid_qa")
    assert few_questions_training(known, few, chosen, has_validation) == {}


def test_rejects_dev_files_without_train_files(two: list[str]) -> None:
    with pytest.raises(UserError, match="no files to train on"):
        find_files(DataParameters(dev_files=two))


def test_rejects_a_reserved_dataset_name(two: list[str]) -> None:
    with pytest.raises(UserError, match="'embeddings' is reserved"):
        find_files(DataParameters(dataset="embeddings", train_files=two))


@pytest.mark.parametrize("name", ["../../x", "a/b", "/etc/x", "..", "a:b", "a\n", " a", "-a"])
def test_rejects_unsafe_dataset_names(name: str, two: list[str]) -> None:
    with pytest.raises(ValidationError, match="dataset must be a plain name"):
        DataParameters(dataset=name, train_files=two)
