"""Policies for words without a vector: their rows in the matrix, and the n-grams of a set."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from infra.artifacts.manifest import hash_file, origins
from models.configs.variant import UnknownWords
from models.word_representation import TrainedUnknown
from tasks.embeddings.formats.select import select_vectors
from tasks.embeddings.formats.source import stage_input
from tasks.embeddings.formats.store import (
    load_word_vectors,
    require_subwords,
    write_vectors,
)
from tasks.embeddings.formats.word_vectors import SUBWORDS, Subwords, WordSet
from tasks.stages import select_vectors_stage
from tasks.text.build_vocabulary import VocabularyConfig, build_vocabulary
from tests.factories.splits import ingest
from tests.factories.stages import in_flow
from tests.factories.vocabularies import write_vocabulary

KNOWN = ["the", "owl", "sees"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A split, a fastText set that lacks "mouse" and "mice", and a vocabulary over both."""
    split = ingest(tmp_path / "split", ("The owl sees the mouse, mice, mouse.", ["Who sees?"]))
    rng = np.random.default_rng(0)
    subwords = Subwords(rng.standard_normal((50, 4)).astype(np.float32), 3, 6)
    (tmp_path / "set").mkdir()
    chosen = WordSet(KNOWN, rng.standard_normal((3, 4)).astype(np.float32), subwords)
    write_vectors(tmp_path / "set", chosen, {"method": "fasttext"})
    subwords.save(tmp_path / "set")
    source = str(tmp_path / "set" / "vectors.parquet")
    write_vocabulary(tmp_path, [split], source, min_count=1)
    return tmp_path


def test_composed_words_do_not_count_as_covered(folder: Path) -> None:
    (folder / "built").mkdir()
    parameters = VocabularyConfig(min_count=2)
    facts = build_vocabulary(folder / "built", folder / "split", [], folder / "vectors", parameters)
    table = pq.read_table(folder / "built" / "words.parquet").to_pydict()
    in_vectors = dict(zip(table["word"], table["in_vectors"], strict=True))
    assert {word for word, known in in_vectors.items() if known} == set(KNOWN)
    assert in_vectors.keys() & {"mouse", "mice", "who"} == {"mouse"}
    assert facts["coverage_train"]["tokens_looked_up"] == pytest.approx(5 / 13)


def matrix_of(folder: Path, policy: UnknownWords) -> tuple[list[str], np.ndarray]:
    words = pq.read_table(folder / "vocabulary" / "words.parquet")["word"].to_pylist()
    return words, load_word_vectors(folder / "vocabulary", folder / "vectors", policy)


def test_each_policy_fills_rows_of_unknown_words(folder: Path) -> None:
    words, zero = matrix_of(folder, "zero")
    assert {w for w, row in zip(words, zero, strict=True) if row.any()} == set(KNOWN)
    np.testing.assert_array_equal(matrix_of(folder, "trainable")[1], zero)
    random = matrix_of(folder, "random")[1]
    assert not random[0].any() and random[1:].any(axis=1).all()
    known = [words.index(word) for word in KNOWN]
    np.testing.assert_array_equal(random[known], zero[known])
    np.testing.assert_array_equal(random, matrix_of(folder, "random")[1])
    composed = matrix_of(folder, "subword")[1]
    subwords = Subwords.load(folder / "vectors")
    assert subwords is not None
    np.testing.assert_array_equal(composed[words.index("mouse")], subwords.vector("mouse"))
    np.testing.assert_array_equal(composed[known], zero[known])
    assert not composed[:2].any()


def test_only_unknown_words_have_trained_rows() -> None:
    vectors = torch.tensor([[0.0, 0], [0, 0], [1, 2], [0, 0]])
    unknown = TrainedUnknown(vectors, 2)
    with torch.no_grad():
        unknown.vectors[:] = torch.tensor([[5.0, 5], [7, 7]])
    assert unknown(torch.tensor([0, 1, 2, 3])).tolist() == [[0, 0], [5, 5], [0, 0], [7, 7]]
    unknown(torch.tensor([0, 2, 3])).sum().backward()
    assert unknown.vectors.grad is not None
    assert unknown.vectors.grad.tolist() == [[0, 0], [1, 1]]


def test_ngrams_are_part_of_the_sets_identity(
    folder: Path, root: Path, prefect_server: None
) -> None:
    """A set copied without its n-grams becomes a different set once they are copied too."""
    copied = folder / "copied"
    copied.mkdir()
    source = copied / "vectors.parquet"
    for name in ("vectors.parquet", SUBWORDS):
        shutil.copyfile(folder / "set" / name, copied / name)
        selected = in_flow(
            lambda: select_vectors_stage(stage_input(source), [], True, 3, True), "pick"
        ).folder
        assert (selected / SUBWORDS).exists() == (name == SUBWORDS)
    require_subwords(selected, "copied")
    files = list(origins({"source": stage_input(source)}))
    assert {file["path"]: file["sha256"] for file in files} == {
        str(copied / name): hash_file(copied / name) for name in ("vectors.parquet", SUBWORDS)
    }


def test_ngrams_are_kept_only_for_subword_models(folder: Path) -> None:
    (folder / "own").mkdir()
    source = str(folder / "set" / "vectors.parquet")
    facts = select_vectors(folder / "own", source, {"owl", "mouse"}, 0, compose_oov=False)
    assert facts["rows"] == 1
    assert [file.name for file in (folder / "own").iterdir()] == ["vectors.parquet"]


def test_equal_ngrams_give_equal_files(tmp_path: Path) -> None:
    """Stages are identified by the digests of their files."""
    subwords = Subwords(np.ones((7, 5), np.float32), 3, 6)
    saved = []
    for _ in range(20):
        subwords.save(tmp_path)
        saved.append((tmp_path / SUBWORDS).read_bytes())
    assert len(set(saved)) == 1
    loaded = Subwords.load(tmp_path)
    assert loaded is not None and (loaded.min_ngram, loaded.max_ngram) == (3, 6)
