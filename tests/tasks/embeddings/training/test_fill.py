"""Sets filled with new words, by rotation of another set and from contexts in a corpus."""

import json
from pathlib import Path

import numpy as np
import pytest

from infra.errors import UserError
from models.arrays import Float32Array
from tasks.embeddings.formats.select import load_vectors, select_vectors
from tasks.embeddings.formats.store import history_of, write_vectors
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.embeddings.training.a_la_carte import fit_map, sum_contexts
from tasks.embeddings.training.alignment import Rotation
from tasks.embeddings.training.config import EmbeddingSettings
from tasks.embeddings.training.fill import fill_from_corpus, fill_from_set
from tasks.training.run_params import making_of
from tests.factories.corpus import ANIMALS, TOOLS, corpus_of, two_topic_sentences

CONTEXTS = EmbeddingSettings(min_count=2)


def drawn(words: int, dimension: int, seed: int = 0) -> Float32Array:
    return np.random.default_rng(seed).normal(size=(words, dimension)).astype(np.float32)


def rotation_matrix(dimension: int) -> Float32Array:
    orthogonal, _ = np.linalg.qr(drawn(dimension, dimension, seed=1).astype(np.float64))
    return orthogonal.astype(np.float32)


def set_in(folder: Path, words: list[str], vectors: Float32Array) -> str:
    folder.mkdir()
    write_vectors(folder, WordSet(words, vectors), {"method": "glove"})
    return str(folder / "vectors.parquet")


def prepared(folder: Path, lines: list[list[str]]) -> Path:
    """A prepared corpus with a manifest, as its stage writes it."""
    folder.mkdir()
    corpus_of(folder, lines)
    facts = {"words": sum(map(len, lines))}
    manifest = {"digest": "d1ge5t", "facts": facts}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


@pytest.mark.parametrize("size", [0.1, 1, 7])
def test_rotation_restores_a_rotated_copy(size: float) -> None:
    vectors = drawn(300, 20) + 0.5
    copy = size * vectors @ rotation_matrix(20) + 3
    restored = Rotation.fit(copy[:200], vectors[:200]).apply(copy)
    np.testing.assert_allclose(restored, vectors, atol=1e-5 if size == 0.1 else 3e-6)
    exact = vectors @ rotation_matrix(20)
    np.testing.assert_allclose(Rotation.fit(exact, vectors).apply(exact), vectors, atol=1e-6)


@pytest.mark.parametrize("dimension", [12, 30])
def test_rotation_between_dimensions_keeps_neighbours(dimension: int) -> None:
    """A set of another dimension that has the same eight directions, and little else."""
    core = drawn(200, 8)
    target = np.hstack([core, 0.01 * drawn(200, 12)])
    source = np.hstack([core, 0.01 * drawn(200, dimension - 8)]) @ rotation_matrix(dimension)
    rotated = Rotation.fit(source[:150], target[:150]).apply(source[150:])
    assert rotated.shape == (50, 20)
    np.testing.assert_allclose(rotated[:, :8], core[150:], atol=0.1)


def test_set_is_filled_from_another_one(tmp_path: Path) -> None:
    words, vectors = [f"w{number}" for number in range(100)], drawn(100, 10)
    base = set_in(tmp_path / "base", words[:80], vectors[:80])
    own_words = [*words[90:], *words[:90]]
    own_vectors = np.concatenate([vectors[90:], vectors[:90]]) @ rotation_matrix(10)
    own = set_in(tmp_path / "own", own_words, own_vectors)
    (tmp_path / "out").mkdir()
    facts = fill_from_set(tmp_path / "out", Path(base), Path(own))
    filled = load_vectors(str(tmp_path / "out" / "vectors.parquet"))
    assert (facts["filled"], facts["words"], facts["anchors"]) == (20, 100, 80)
    assert facts["cosine"] == pytest.approx(1)
    rows = [filled.rows[word] for word in words]
    np.testing.assert_array_equal(filled.vectors[rows[:80]], vectors[:80])
    np.testing.assert_allclose(filled.vectors[rows[80:]], vectors[80:], atol=1e-6)
    assert max(filled.rows[word] for word in words[90:]) < 20, "frequent words of both come first"
    history = history_of(tmp_path / "out" / "vectors.parquet")
    made = {"method": "procrustes", "base": "base", "own": "own", "own_method": "glove"}
    assert made.items() <= history.items()
    assert history["base_digest"] != history["own_digest"]
    assert making_of(history)["own_digest"] == history["own_digest"][:12]


def test_set_is_filled_from_a_corpus(tmp_path: Path) -> None:
    """The vector of a removed animal is nearer to animals than to tools."""
    words = [*ANIMALS[1:], *TOOLS, "the", "of"]
    vectors = np.zeros((len(words), 2), np.float32)
    vectors[:4, 0], vectors[4:9, 1] = 1, 1
    vectors += 0.1 * drawn(len(words), 2)
    base = set_in(tmp_path / "base", words, vectors)
    corpus = prepared(tmp_path / "corpus", two_topic_sentences())
    (tmp_path / "out").mkdir()
    facts = fill_from_corpus(tmp_path / "out", Path(base), corpus, CONTEXTS)
    filled = load_vectors(str(tmp_path / "out" / "vectors.parquet"))
    assert (facts["filled"], facts["examples"]) == (1, [ANIMALS[0]])
    kept = [filled.rows[word] for word in words]
    np.testing.assert_array_equal(filled.vectors[kept], vectors)
    induced = filled.vectors[filled.rows[ANIMALS[0]]]
    cosines = vectors @ induced / np.linalg.norm(vectors, axis=1) / np.linalg.norm(induced)
    assert cosines[:4].min() > cosines[4:9].max() + 0.5
    assert history_of(tmp_path / "out" / "vectors.parquet")["corpus"] == "d1ge5t"
    (tmp_path / "selected").mkdir()
    select_vectors(
        tmp_path / "selected", str(tmp_path / "out" / "vectors.parquet"), {ANIMALS[0]}, 0
    )
    assert load_vectors(str(tmp_path / "selected" / "vectors.parquet")).words == [ANIMALS[0]]


def test_contexts_match_a_plain_loop(tmp_path: Path) -> None:
    lines = [line[: 3 + number % 9] for number, line in enumerate(two_topic_sentences(40))]
    corpus, window = corpus_of(tmp_path, lines), 3
    words = ["the", *ANIMALS, "of"]
    base = WordSet([*ANIMALS, "the"], drawn(6, 5))
    wanted = np.array([6, 2, 0], np.int32)
    contexts = sum_contexts(corpus, 0, words, base, wanted, window)
    sums, tokens = np.zeros((3, 5)), np.zeros(3)
    for line in lines:
        kept = [word for word in line if word in words]
        for position, word in enumerate(kept):
            around = kept[max(position - window, 0) : position] + kept[position + 1 :][:window]
            for row in np.flatnonzero(wanted == words.index(word)):
                known = [base.rows[other] for other in around if other in base.rows]
                sums[row] += base.vectors[known].sum(axis=0, dtype=np.float64)
                tokens[row] += len(known)
    np.testing.assert_allclose(contexts.sums, sums, atol=1e-9)
    np.testing.assert_array_equal(contexts.tokens, tokens)


def test_map_restores_a_linear_relation() -> None:
    means, matrix = drawn(60, 6).astype(np.float64), drawn(6, 6, seed=1)
    fitted = fit_map(means, (means @ matrix).astype(np.float32), np.arange(2.0, 62))
    np.testing.assert_allclose(fitted, matrix, atol=1e-4)


def test_quotes_are_not_filled_over_their_plain_form(tmp_path: Path) -> None:
    words = ["'", *(f"w{number}" for number in range(19))]
    base = set_in(tmp_path / "base", words, drawn(20, 4))
    own = set_in(tmp_path / "own", ["’", *words], drawn(21, 4))
    (tmp_path / "out").mkdir()
    assert fill_from_set(tmp_path / "out", Path(base), Path(own))["filled"] == 0


def test_too_few_common_words_are_refused(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(15)]
    base = set_in(tmp_path / "base", words, drawn(15, 3))
    own = set_in(tmp_path / "own", ["W0", *words[1:]], drawn(15, 3))
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="only 14 frequent words in common; at least 15"):
        fill_from_set(tmp_path / "out", Path(base), Path(own))
    alone = [["w14"]] * 5  # without context, so that it can't fit the map
    corpus = prepared(tmp_path / "corpus", [words[:14], words[:14], *alone])
    with pytest.raises(UserError, match="corpus and the vectors to fill have only 14 frequent"):
        fill_from_corpus(tmp_path / "out", Path(base), corpus, CONTEXTS)


@pytest.mark.parametrize("base_case", [True, False, None])
def test_filled_set_has_the_case_of_its_base(tmp_path: Path, base_case: bool | None) -> None:
    words = [f"w{i}" for i in range(40)]
    files = []
    for name, lower_case in (("base", base_case), ("own", not base_case)):
        (tmp_path / name).mkdir()
        case = {} if lower_case is None else {"lower_case": lower_case}
        own = [*words, "new"] if name == "own" else words
        write_vectors(
            tmp_path / name, WordSet(own, drawn(len(own), 8)), {"method": "glove", **case}
        )
        files.append(str(tmp_path / name / "vectors.parquet"))
    (tmp_path / "out").mkdir()
    assert fill_from_set(tmp_path / "out", *map(Path, files))["filled"] == 1
    assert history_of(tmp_path / "out" / "vectors.parquet").get("lower_case") == base_case
