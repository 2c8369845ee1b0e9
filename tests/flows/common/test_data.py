"""The data of a run: its files, and its splits."""

import json
import logging
import re
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from prefect import flow
from pydantic import ValidationError

from flows.common.data import (
    Splits,
    find_evaluation_files,
    find_files,
    ingest_dataset,
    suited_changes,
)
from flows.common.parameters import DataParameters, MixedSource, VectorParameters
from flows.common.vectors import encode_dataset
from infra.artifacts.manifest import content_digest
from infra.artifacts.stage import Output
from infra.errors import UserError
from infra.files import READ_PROGRESS
from infra.reporting import progress_artifact
from infra.reporting.progress_reporter import showing_read_progress
from tasks.datasets.catalog import FEW_QUESTIONS
from tasks.datasets.tiny import generate
from tasks.evaluation.evaluate import load_split
from tasks.inference.trained_contexts import (
    new_to_models,
    trained_contexts,
    write_trained_contexts,
)
from tasks.serving.feedback import keep
from tasks.serving.schemas import Feedback
from tasks.text.build_vocabulary import VocabularyConfig
from tasks.tracking.runs import Split
from tests.factories.prefect_artifacts import artifacts

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("prefect_server", "root")]

ARTICLES: list[dict[str, Any]] = generate(3, contexts=3)[0]["data"]


def write(file: Path, articles: list[dict[str, Any]]) -> str:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"data": articles}), encoding="utf-8")
    return str(file)


def ingest_in_flow(data: DataParameters) -> Splits:
    return flow(lambda: ingest_dataset(data), name="ingesting")()


def keep_feedback(folder: Path) -> None:
    for number in range(20):
        text = f"Inn {number} is closed."
        keep(folder, Feedback(question="What is closed?", context=text, answer="Inn", right=False))


def parsed_files(root: Path) -> int:
    return len(list((root / "stages" / "ingest").iterdir()))


def texts(split: Path) -> set[str]:
    column: Any = pq.read_table(split / "contexts.parquet", columns=["text"])["text"]
    return set(column.to_pylist())


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
    own = tmp_path / "own"
    own.mkdir()
    for name in ("train.json", "dev.json", "2026-12.json"):
        (own / name).touch()
    assert find_files(DataParameters(dataset=str(own))).unused == ["2026-12.json"]
    assert find_files(DataParameters(dataset=str(own / "train.json"))).unused == []


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
    def changes(dataset: str, questions: int) -> dict[str, Any]:
        train = Output(Path(), {"questions": questions}, cached=True)
        validation = train if has_validation else None
        data = DataParameters(dataset=dataset)
        return suited_changes(Splits(data, "own", train, validation, train), chosen)

    assert changes("own.json", FEW_QUESTIONS - 1) == expected
    assert changes("own.json", FEW_QUESTIONS) == changes("covid_qa", FEW_QUESTIONS - 1) == {}


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


def test_new_file_alone_is_parsed_and_changes_digest(tmp_path: Path, root: Path) -> None:
    months = tmp_path / "months"
    write(months / "train-may.json", ARTICLES[:6])
    write(months / "train-june.json", ARTICLES[6:12])
    write(months / "dev.json", ARTICLES[20:])
    data = DataParameters(dataset=str(months))
    before = ingest_in_flow(data)
    assert parsed_files(root) == 3
    assert ingest_in_flow(data).train.cached

    write(months / "train-july.json", ARTICLES[12:18])
    after = ingest_in_flow(data)
    assert parsed_files(root) == 4
    assert after.dev.cached and not after.train.cached
    assert content_digest(after.train.folder) != content_digest(before.train.folder)
    assert after.train.facts["questions"] > before.train.facts["questions"]
    assert [file["name"] for file in after.train.facts["files"]] == [
        "train-july.json",
        "train-june.json",
        "train-may.json",
    ]


def test_negatives_reach_train_and_validation_only(tmp_path: Path) -> None:
    file = write(tmp_path / "all.json", ARTICLES)
    splits = ingest_in_flow(DataParameters(dataset=file, validation_share=0.2, negatives=0.5))
    assert splits.validation is not None
    for facts in (splits.train.facts, splits.validation.facts):
        assert facts["negatives"] == pytest.approx(0.5 * facts["answerable"], rel=0.2)
    assert splits.dev.facts["negatives"] == 0


def test_grown_data_keep_all_articles_in_their_splits(tmp_path: Path) -> None:
    """A model that was trained before can be compared on the splits after, as no context of
    validation or dev is one that it was trained on."""
    articles: list[dict[str, Any]] = generate(3, 52, 1, contexts=2)[0]["data"]
    file = tmp_path / "tickets.json"
    data = DataParameters(dataset=write(file, articles[:40]))
    before = ingest_in_flow(data)
    write(file, [*articles[46:], *articles[:40], *articles[40:46]])  # 30 % more
    after = ingest_in_flow(data)
    assert list(before.folders) == list(after.folders) == ["train", "validation", "dev"]
    for name, folder in before.folders.items():
        assert texts(folder) <= texts(after.folders[name])
    assert texts(before.train.folder) < texts(after.train.folder)
    (tmp_path / "model").mkdir()
    write_trained_contexts(tmp_path / "model", before.train.folder, None)
    known = trained_contexts(tmp_path / "model")
    for name in ("validation", "dev"):
        assert new_to_models(load_split(after.folders[name]), [known]).all()


def test_validation_and_dev_are_held_out_and_encoded(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("deep/train.json", json.dumps({"data": ARTICLES}))
    data = DataParameters(dataset=str(tmp_path / "all.zip"), validation_share=0.2)
    splits = ingest_in_flow(data)
    assert splits.name == "all"
    assert splits.validation is not None
    outputs = (splits.train, splits.validation, splits.dev)
    questions = sum(len(p["qas"]) for article in ARTICLES for p in article["paragraphs"])
    assert sum(split.facts["questions"] for split in outputs) == questions
    train, validation, dev = (texts(split.folder) for split in outputs)
    assert not train & validation and not train & dev and not validation & dev

    encoded = flow(
        lambda: encode_dataset(splits, VectorParameters(), VocabularyConfig()), name="encoding"
    )()
    assert list(encoded.splits) == ["train", "validation", "dev"]
    assert len({output.folder for output in encoded.splits.values()}) == 3


@pytest.mark.parametrize(
    ("articles", "parts"),
    [(2, ["train", "dev"]), (3, ["train", "validation", "dev"])],
)
def test_few_articles_are_in_a_split_each(
    tmp_path: Path, articles: int, parts: list[Split]
) -> None:
    file = write(tmp_path / "few.json", ARTICLES[:articles])
    splits = ingest_in_flow(DataParameters(dataset=file))
    assert list(splits.folders) == parts
    assert all(
        pq.read_metadata(f / "contexts.parquet").num_rows == 3 for f in splits.folders.values()
    )


def test_one_article_needs_a_dev_file(tmp_path: Path) -> None:
    one = write(tmp_path / "one.json", ARTICLES[:1])
    with pytest.raises(UserError, match="contain only one article with questions"):
        ingest_in_flow(DataParameters(dataset=one))
    dev = write(tmp_path / "dev.json", ARTICLES[1:2])
    splits = ingest_in_flow(DataParameters(dataset=one, dev_files=[dev]))
    assert list(splits.folders) == ["train", "dev"]


def test_shares_that_leave_nothing_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "all.json", ARTICLES)
    shares = DataParameters(dataset=file, dev_share=0.6, validation_share=0.4)
    with pytest.raises(
        UserError, match=r"validation_share is 0\.4 and data\.dev_share 0\.6, which"
    ):
        ingest_in_flow(shares)
    with_dev = shares.model_copy(update={"dev_files": [write(tmp_path / "dev.json", ARTICLES[:1])]})
    assert ingest_in_flow(with_dev.model_copy(update={"overlap": "leave out"})).validation


def test_mixed_in_files_are_used_for_training_only(tmp_path: Path) -> None:
    """Except a share of the feedback, if there is a validation split."""
    own = write(tmp_path / "own.json", ARTICLES[:10])
    other = write(tmp_path / "other.json", ARTICLES[10:])
    keep_feedback(tmp_path)
    sources = [other, str(tmp_path / "feedback.jsonl")]
    mix = [MixedSource(files=[source], weight=2) for source in sources]
    splits = ingest_in_flow(DataParameters(dataset=own, mix=mix, validation_share=0.2))
    assert splits.validation is not None
    passages = [
        {text for text in texts(split.folder) if text.startswith("Inn")}
        for split in (splits.validation, splits.train)
    ]
    assert all(passages) and sum(map(len, passages)) == len(passages[0] | passages[1]) == 20
    assert [file["weight"] for file in splits.validation.facts["files"]] == [1, 1]
    few = DataParameters(dataset=write(tmp_path / "few.json", ARTICLES[:2]), mix=mix[1:])
    assert len(texts(ingest_in_flow(few).train.folder)) == 20 + 3
    contexts = {p["context"] for article in ARTICLES[10:] for p in article["paragraphs"]}
    assert contexts <= texts(splits.train.folder)
    assert not contexts & (texts(splits.validation.folder) | texts(splits.dev.folder))
    assert splits.train.facts["files"][1] == {"name": "other.json", "weight": 2.0}


def test_overlap_is_rejected_unless_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train = write(tmp_path / "a.json", ARTICLES[:10])
    dev = write(tmp_path / "b.json", ARTICLES[9:12])
    data = DataParameters(dataset="mine", train_files=[train], dev_files=[dev])
    with pytest.raises(UserError, match=r"also occur in the evaluation set"):
        ingest_in_flow(data)
    splits = ingest_in_flow(data.model_copy(update={"overlap": "leave out"}))
    lost = len(ARTICLES[9]["paragraphs"])
    assert splits.train.facts["contexts_left_out"] == lost
    (warning,) = [record for record in caplog.records if "are left out" in record.message]
    assert warning.levelname == "WARNING" and warning.message.startswith(f"{lost} of the ")


def test_prefect_artifact_shows_read_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_artifact, "SECONDS_BETWEEN", 0.0)
    data = [tmp_path / name for name in ("a.json", "b.json")]
    for file, size in zip(data, (3_000_000, 1_000_000), strict=True):
        file.write_bytes(b" " * size)
    seen: list[tuple[float, str]] = []
    known = {artifact["id"] for artifact in artifacts("progress-reading")}

    def shown() -> tuple[float, str]:
        (new,) = [a for a in artifacts("progress-reading") if a["id"] not in known]
        assert new["flow_run_id"] is not None
        return new["data"], new["description"]

    @flow(name="reading")
    def read() -> None:
        with showing_read_progress([*data, data[0]]):
            for file, share in ((data[0], 0.5), (data[0], 0.4), (data[0], 1), (data[1], 0.2)):
                READ_PROGRESS.get()(file, share)
                seen.append(shown())

    read()
    assert [percent for percent, _ in seen] == [37.5, 37.5, 75, 80]
    assert seen[0][1].startswith("reading: 1.5 MB of 4.0 MB (38 %), ")
    assert seen[3][1].startswith("reading: 3.2 MB of 4.0 MB (80 %), ")
    percent, description = shown()
    assert percent == 100
    assert re.fullmatch(r"reading: 100%, done in \d+ s", description)


def test_progress_skips_fast_reads_and_counts_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_artifact, "SECONDS_BETWEEN", 3600.0)
    known = len(artifacts("progress-reading"))
    file = write(tmp_path / "all.json", ARTICLES)
    data = DataParameters(dataset="mine", train_files=[file])
    ingest_in_flow(data)
    assert len(artifacts("progress-reading")) == known
    monkeypatch.setattr(progress_artifact, "SECONDS_BETWEEN", 0.0)
    ingest_in_flow(data.model_copy(update={"seed": 1}))  # the parsed file is a cache hit
    newest = max(artifacts("progress-reading"), key=lambda artifact: str(artifact["created"]))
    assert len(artifacts("progress-reading")) == known + 1
    assert newest["description"].startswith("reading: 100%, done in ")
