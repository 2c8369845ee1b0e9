"""Trials of rotations and contexts on hidden terms."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.arrays import Float32Array
from tasks.embeddings.advice.trial import (
    NEAREST,
    TrialWords,
    ranks,
    similar_in_rank,
    try_contexts,
    try_rotation,
)
from tasks.embeddings.formats.word_vectors import WordSet
from tests.factories.corpus import corpus_of

WORDS = [f"w{number}" for number in range(400)]
TRIAL = TrialWords(WORDS[100:140], frozenset({"new"}), frozenset({"new", "w3", "absent"}))


def drawn(words: int, dimension: int, seed: int = 0) -> Float32Array:
    return np.random.default_rng(seed).normal(size=(words, dimension)).astype(np.float32)


def test_ranks_count_nearer_rows() -> None:
    main = np.array([[1, 0], [1, 0.2], [1, 1], [0, 1]], np.float32)
    placed = np.array([[2, 0], [0, 5], [1, 0]], np.float32)
    assert ranks(main, placed, [0, 2, 3]).tolist() == [0, 1, 3]


def test_rotated_copy_places_all_hidden_terms() -> None:
    vectors = drawn(401, 20)
    orthogonal, _ = np.linalg.qr(drawn(20, 20, seed=1))
    copy = WordSet([*WORDS, "new"], vectors @ orthogonal)
    trial = try_rotation(WordSet(WORDS, vectors[:400]), copy, TRIAL)
    assert (trial.terms, trial.placed) == (20, 1)
    np.testing.assert_allclose(trial.vectors["new"], vectors[400], atol=1e-5)
    assert "absent" not in trial.vectors
    unrelated = WordSet([*WORDS, "new"], drawn(401, 20, seed=2))
    other = try_rotation(WordSet(WORDS, vectors[:400]), unrelated, TRIAL)
    assert other.placed is not None and other.placed < 0.3, f"chance: {NEAREST} of 400"


def test_contexts_place_terms_beside_their_topic(tmp_path: Path) -> None:
    """Each line has the words of one of 40 topics, and so do the vectors."""
    random = np.random.default_rng(3)
    topics = np.arange(400) % 40
    vectors = drawn(40, 40)[topics] + 0.1 * drawn(400, 40, seed=1)
    lines = [
        [WORDS[row] for row in random.choice(np.flatnonzero(topics == number % 40), 12)]
        for number in range(1200)
    ]
    for line in lines[3::40]:
        line[5] = "new"
    corpus = corpus_of(tmp_path, lines)
    facts = {"facts": {"words": 12 * len(lines)}}
    (tmp_path / "manifest.json").write_text(json.dumps(facts), encoding="utf-8")
    counts = {word: sum(line.count(word) for line in lines) for word in [*WORDS, "new"]}
    trial = try_contexts(WordSet(WORDS, vectors), corpus, counts, TRIAL)
    assert trial.terms == 20 and trial.placed is not None and trial.placed > 0.9
    main = WordSet(WORDS, vectors)
    nearest = np.argsort(-(main.vectors @ trial.vectors["new"]))[:8]
    assert set(topics[nearest]) == {3}


def test_too_few_common_words_are_no_trial() -> None:
    main = WordSet(WORDS, drawn(400, 20))
    trial = try_rotation(main, WordSet(WORDS[:10], drawn(10, 20)), TRIAL)
    assert (trial.terms, trial.placed) == (0, None)
    assert trial.obstacle is not None and "only 9 frequent words in common" in trial.obstacle
    few = TrialWords(WORDS[:5], frozenset(), frozenset())
    assert try_rotation(main, WordSet(WORDS, drawn(400, 20)), few).placed is None


def test_hidden_terms_are_as_rare_as_missing_words() -> None:
    known = {f"t{rank}": rank for rank in range(0, 1000, 10)}
    hidden = [known[term] for term in similar_in_rank(known, [701, 703])]
    assert len(hidden) == 33 and min(hidden) >= 530 and max(hidden) <= 870
    spread = [known[term] for term in similar_in_rank(known, range(1000))]
    assert np.mean(spread) == pytest.approx(500, abs=30)
    assert similar_in_rank(known, []) == list(known), "no word is missing"


@given(st.sets(st.integers(0, 500), max_size=40), st.lists(st.integers(0, 500), max_size=60))
def test_hidden_terms_are_distinct_known_ones(ranks: set[int], missing: list[int]) -> None:
    known = {f"t{rank}": rank for rank in ranks}
    hidden = similar_in_rank(known, missing)
    assert len(set(hidden)) == len(hidden) and set(hidden) <= set(known)
