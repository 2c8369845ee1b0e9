"""Where vectors and the texts for them come from, and the case of their words."""

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.common.data import ingest_dataset
from flows.common.parameters import CorpusParameters, DataParameters, VectorParameters
from flows.common.vectors import corpus_files, encode_dataset, resolve, train_from_corpus
from flows.compare_variants import compare_variants
from flows.evaluate_embeddings import evaluate_embeddings
from flows.retrain import retrain
from flows.train import train
from infra.artifacts.shared_folder import shared_folder
from infra.artifacts.stage import result_of
from infra.errors import UserError
from infra.settings import settings
from tasks.datasets.tiny import generate
from tasks.embeddings.formats.source import VECTORS, TrainedVectors
from tasks.embeddings.formats.store import write_vectors
from tasks.embeddings.formats.word_vectors import SUBWORDS, WordSet
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.text.build_vocabulary import VocabularyConfig
from tests.factories.cli import write_dataset
from tests.factories.stages import in_flow
from tests.factories.vectors import write_lines


@pytest.mark.parametrize(
    ("file", "message"),
    [("bilm.safetensors", "name a set of word vectors here"), ("a.txt", "Name a file")],
)
def test_folder_without_a_set_is_refused(file: str, message: str, tmp_path: Path) -> None:
    (tmp_path / file).touch()
    with pytest.raises(UserError, match=f"is a folder without vectors.parquet.*{message}"):
        resolve(str(tmp_path))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("trained_lower_case", "warned"),
    [(True, True), pytest.param(False, False, marks=pytest.mark.full), (None, False)],
)
def test_warns_if_vectors_have_other_casing(
    root: Path,
    prefect_server: None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    trained_lower_case: bool | None,
    warned: bool,
) -> None:
    history: dict[str, Any] = {"method": "cbow"}
    if trained_lower_case is not None:
        history["lower_case"] = trained_lower_case
    write_vectors(tmp_path, WordSet(["the", "is"], np.eye(2, dtype=np.float32)), history)
    spec = str(tmp_path / "vectors.parquet")
    parameters = VectorParameters(source=spec), VocabularyConfig(lower_case=False)
    (tmp_path / "text.txt").write_text("the cat is the cat\n" * 9, encoding="utf-8")
    corpus = CorpusParameters(files=[str(tmp_path / "text.txt")], lower_case=False)
    embedding = EmbeddingParameters(method="cbow", dimension=2, min_count=1)
    data = DataParameters(dataset=str(write_dataset(tmp_path / "own", 2, 1)))
    with caplog.at_level(logging.WARNING):
        in_flow(lambda: encode_dataset(ingest_dataset(data), *parameters), "encoded")
        result_of(evaluate_embeddings([spec], lower_case=False, return_state=True))
        in_flow(lambda: train_from_corpus(corpus, embedding, spec), "warm-start")
    warnings = [text for text in caplog.messages if "were trained with lower_case=True" in text]
    fields = ("vocabulary.lower_case", "lower_case", "corpus.lower_case") if warned else ()
    assert len(warnings) == len(fields)
    for text, field in zip(warnings, fields, strict=True):
        assert f"but {field} is False" in text and f"Set {field} to True." in text


def test_warns_of_a_joined_set_with_other_casing(
    root: Path, prefect_server: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, lower_case in (("cased", False), ("lower", True)):
        (tmp_path / name).mkdir()
        words = WordSet(["the", "is"], np.eye(2, dtype=np.float32))
        write_vectors(tmp_path / name, words, {"method": "cbow", "lower_case": lower_case})
    vectors = VectorParameters(source=f"{tmp_path / 'cased'}+{tmp_path / 'lower'}")
    data = DataParameters(dataset=str(write_dataset(tmp_path / "own", 2, 1)))
    with caplog.at_level(logging.WARNING):
        in_flow(lambda: encode_dataset(ingest_dataset(data), vectors, VocabularyConfig()), "joined")
    (warning,) = [text for text in caplog.messages if "were trained with" in text]
    assert warning.startswith("The vectors cased were trained with lower_case=False")


ARABIC = str.maketrans(dict(zip(ascii_lowercase, "ابتثجحخدذرزسشصضطظعغفقكلمنه", strict=True)))


def in_arabic(text: str) -> str:
    """The text in Arabic letters, with its digits and punctuation."""
    return text.lower().translate(ARABIC)


def translated(folder: Path) -> Path:
    """The files of a dataset, written anew in Arabic letters."""
    for file in write_dataset(folder, 2, 1).iterdir():
        data = json.loads(file.read_text(encoding="utf-8"))
        for paragraph in (p for article in data["data"] for p in article["paragraphs"]):
            paragraph["context"] = in_arabic(paragraph["context"])
            for question in paragraph["qas"]:
                question["question"] = in_arabic(question["question"])
                for answer in question["answers"]:
                    answer["text"] = in_arabic(answer["text"])
        file.write_text(json.dumps(data), encoding="utf-8")
    return folder


def coverage_lines(
    data: Path, source: str, caplog: pytest.LogCaptureFixture
) -> list[tuple[int, str]]:
    """Level and text of the lines on coverage when a dataset is encoded for training."""
    parameters = DataParameters(dataset=str(data)), VectorParameters(source=source)
    with caplog.at_level(logging.INFO):
        in_flow(
            lambda: encode_dataset(
                ingest_dataset(parameters[0]), parameters[1], VocabularyConfig()
            ),
            "coverage",
        )
    return [(r.levelno, r.getMessage()) for r in caplog.records if "% of the" in r.getMessage()]


def test_training_says_what_its_vectors_cover(
    root: Path, prefect_server: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = write_dataset(tmp_path / "own", 2, 1)
    ((level, line),) = coverage_lines(data, "glove-6b-50d", caplog)
    assert level == logging.INFO
    expected = (
        r"glove-6b-50d has vectors for \d\d\.\d % of the text and \d\d? % of its distinct words\."
    )
    assert re.fullmatch(expected, line)
    caplog.clear()
    assert coverage_lines(data, "none", caplog) == [], "chosen on purpose"
    upper = write_lines(tmp_path / "upper.vec", "4 2", "THE 1 2", "WAS 3 4", "IN 5 6", "IS 7 8")
    ((level, line),) = coverage_lines(data, upper, caplog)
    assert level == logging.WARNING
    assert "upper.vec has vectors for 0.0 % of the text" in line and "in another case" in line
    caplog.clear()
    ((level, line),) = coverage_lines(translated(tmp_path / "arabic"), "glove-6b-50d", caplog)
    assert level == logging.WARNING
    assert "another language than the text" in line and "variant char-only" in line


def test_vectors_without_any_word_are_refused(
    root: Path, prefect_server: None, tmp_path: Path
) -> None:
    empty = VectorParameters(source=write_lines(tmp_path / "empty.vec", "0 50"))
    data = DataParameters(dataset=str(write_dataset(tmp_path / "own", 2, 1)))
    message = r"^empty\.vec has no vector for any word of the text\. Choose vectors of"
    for state in (
        train(data, vectors=empty, return_state=True),
        retrain(data, vectors=empty, return_state=True),
        compare_variants([data], vectors=[empty], return_state=True),
    ):
        with pytest.raises(UserError, match=message):
            result_of(state)
    assert not {"encode", "train"} & {folder.name for folder in (root / "stages").iterdir()}


@pytest.mark.heavy
def test_corpus_has_no_context_that_the_run_holds_out(
    root: Path, prefect_server: None, tmp_path: Path
) -> None:
    file = str(tmp_path / "own.json")
    Path(file).write_text(json.dumps(generate(3, contexts=3)[0]), encoding="utf-8")
    data = DataParameters(dataset=file, seed=1, dev_share=0.3)
    same, copy = (CorpusParameters(dataset=spec) for spec in (file, f"{tmp_path}/./own.json"))

    def texts(file: Path) -> set[str]:
        column: Any = pq.read_table(file, columns=["text"])["text"]
        return set(column.to_pylist())

    def work() -> None:
        splits = ingest_dataset(data)
        held_out = texts(splits.dev.folder / "contexts.parquet")
        assert splits.validation is not None
        held_out |= texts(splits.validation.folder / "contexts.parquet")
        for corpus in (same, copy):
            (own,) = corpus_files(corpus, splits)
            assert texts(own.path) and not held_out & texts(own.path)
        (default,) = corpus_files(same)
        assert held_out & texts(default.path), "another seed holds others out"

    in_flow(work, "leaking")


def test_corpus_has_equal_files_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, text in {"a.txt": "one", "b.txt": "two", "copy.txt": "one"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    specs = [str(tmp_path), f"{tmp_path}/*.txt", f"{tmp_path}/./b.txt"]
    with caplog.at_level(logging.INFO):
        files = corpus_files(CorpusParameters(files=specs))
    assert [file.path.name for file in files] == ["a.txt", "b.txt"]
    assert "Corpus: 5 of 7 files are equal to others, and are not read." in caplog.text


def test_reads_texts_at_uris(root: Path, prefect_server: None, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    (texts / "more").mkdir(parents=True)
    for name in ("a.txt", "more/a.txt.gz", "notes.md", ".hidden.txt"):
        (texts / name).write_text(name, encoding="utf-8")
    pq.write_table(pa.table({"body": ["one"]}), tmp_path / "pages.parquet")
    specs = [f"{texts.as_uri()}/", f"{tmp_path.as_uri()}/pages.parquet#body"]
    files = in_flow(lambda: corpus_files(CorpusParameters(files=specs)), "remote texts")
    assert [(file.path.name, file.column) for file in files] == [
        ("a.txt", "text"),
        ("a.txt.gz", "text"),
        ("pages.parquet", "body"),
    ]
    assert all(file.path.is_relative_to(root) for file in files), "copies below the root"
    with pytest.raises(UserError, match=r"notes.md: no texts there; expected names that end in"):
        corpus_files(CorpusParameters(files=[f"{texts.as_uri()}/notes.md"]))


def test_reads_vectors_at_a_uri(root: Path, prefect_server: None, tmp_path: Path) -> None:
    (tmp_path / "own.vec").write_text("1 2\nthe 0.5 1\n", encoding="utf-8")
    uri = f"{tmp_path.as_uri()}/own.vec"
    assert VectorParameters(source=uri).source == uri
    file = in_flow(lambda: resolve(uri), "remote vectors")
    assert isinstance(file, Path) and file.is_relative_to(root)
    assert file.read_bytes() == (tmp_path / "own.vec").read_bytes()
    with pytest.raises(UserError, match="No files found at"):
        resolve(f"{tmp_path.as_uri()}/other.vec")


@pytest.mark.usefixtures("store")
def test_sets_are_found_with_their_ngrams(other_machine: Callable[[], None]) -> None:
    here = settings().root / "embeddings" / "support"
    with shared_folder(here):
        here.mkdir(parents=True)
        for name in (VECTORS, SUBWORDS):
            (here / name).write_bytes(name.encode())
    other_machine()
    for name in ("support", f"{settings().address}/embeddings/support/{VECTORS}"):
        found = resolve(name)
        assert isinstance(found, TrainedVectors) and found.subwords is not None
        assert found.subwords.read_bytes() == SUBWORDS.encode()
