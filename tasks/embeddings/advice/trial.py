"""Tries each way of filling a set on words whose vectors are known.

The vectors of some of the dataset's own terms are hidden, induced from a corpus or rotated from
another set, and looked up in the main set: if a term's given vector is among the nearest ones, the
way places words of this domain well, and thus probably the missing ones, too.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from infra.artifacts.manifest import facts_of
from models.arrays import Float32Array, IntArray
from tasks.embeddings.evaluation.nearest_neighbors import Neighbours, ScoredWords, unit
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.embeddings.training.alignment import Rotation
from tasks.embeddings.training.fill import MAX_ANCHORS, WINDOW, too_few_anchors

# `a_la_carte` is imported locally, because it loads numba, which takes seconds.

TRIAL_TERMS = 300  # at most; fewer than 20 say too little
FEWEST_TERMS = 20
NEAREST = 10
BLOCK = 50_000  # rows of the main set that are compared at a time


@dataclass(frozen=True)
class Trial:
    """How well hidden terms were placed, and the placed vectors of the terms to show."""

    terms: int
    placed: float | None  # share (0 to 1) with the given vector among the `NEAREST`; None: too few
    vectors: Mapping[str, Float32Array]  # (d,) each
    obstacle: str | None = None  # why nothing could be placed


@dataclass(frozen=True)
class TrialWords:
    """The words of a trial: those that may be hidden, the missing ones, and those to show."""

    known: Sequence[str]  # terms with a vector in the main set
    missing: frozenset[str]  # words without one
    shown: frozenset[str]

    def choose(self, order: Mapping[str, int]) -> tuple[list[str], list[str]]:
        """The terms to hide, and all terms to place; `order` has the source's words with their
        place in it, by descending frequency."""
        missing = [order[word] for word in self.missing if word in order]
        hidden = similar_in_rank({t: order[t] for t in self.known if t in order}, missing)
        return hidden, list(dict.fromkeys((*hidden, *sorted(self.shown.intersection(order)))))


def similar_in_rank(known: Mapping[str, int], missing: Sequence[int]) -> list[str]:
    """At most `TRIAL_TERMS` of the known terms: those nearest in rank to the missing words.

    Rare words are placed worse than frequent ones, so the trial needs terms as rare as the missing
    words. To leave a choice, it takes at most a third of them. Without missing words, these are
    the first terms.
    """
    if not missing:
        return list(known)[:TRIAL_TERMS]
    ranked = sorted((rank, term) for term, rank in known.items())
    count = min(TRIAL_TERMS, max(FEWEST_TERMS, len(ranked) // 3), len(ranked))
    steps = np.linspace(0, len(missing) - 1, count)
    chosen = []
    for wanted in np.sort(missing)[np.round(steps).astype(int)]:
        place = bisect_left(ranked, (int(wanted), ""))
        around = range(max(place - 1, 0), min(place + 1, len(ranked)))
        nearest = min(around, key=lambda row: abs(ranked[row][0] - wanted))
        chosen.append(ranked.pop(nearest)[1])
    return chosen


def try_rotation(main: WordSet, other: WordSet, words: TrialWords) -> Trial:
    """Rotate another set onto the main one by the words in common that are not to be placed."""
    hidden, placed = words.choose(other.rows)
    excluded = set(placed)
    anchors = [w for w in other.words if w in main.rows and w not in excluded][:MAX_ANCHORS]
    if obstacle := too_few_anchors(len(anchors), main, "set"):
        return Trial(0, None, {}, obstacle)
    rotation = Rotation.fit(_rows(other, anchors), _rows(main, anchors))
    rotated = rotation.apply(_rows(other, placed))
    return _trial(main, hidden, dict(zip(placed, rotated, strict=True)))


def try_contexts(
    main: WordSet, corpus: Path, counts: Mapping[str, int], words: TrialWords
) -> Trial:
    """Induce terms from their contexts in a prepared corpus with these word counts, the most
    frequent first (à la carte)."""
    from tasks.embeddings.training.a_la_carte import ANCHORS, fit_map, sum_contexts

    row_of = {word: row for row, word in enumerate(counts)}
    hidden, placed = words.choose(row_of)
    excluded = set(placed)
    anchors = [w for w in counts if w in main.rows and w not in excluded][:ANCHORS]
    if obstacle := too_few_anchors(len(anchors), main, "corpus"):  # before the corpus is read
        return Trial(0, None, {}, obstacle)
    wanted = np.array([row_of[word] for word in (*anchors, *placed)], np.int32)
    tokens = facts_of(corpus)["words"]
    # Missing words have no vector in any context, so hidden ones must not have one either.
    visible = [row for word, row in main.rows.items() if word not in excluded]
    base = WordSet([main.words[row] for row in visible], main.vectors[visible])
    contexts = sum_contexts(corpus, tokens, list(counts), base, wanted, WINDOW)
    size, found = len(anchors), contexts.tokens > 0
    fit = np.flatnonzero(found[:size])
    if obstacle := too_few_anchors(len(fit), main, "corpus"):
        return Trial(0, None, {}, obstacle)
    fitted = [anchors[row] for row in fit]
    weights = np.array([counts[word] for word in fitted], np.float64)
    matrix = fit_map(contexts.means[fit], _rows(main, fitted), weights)
    induced = (contexts.means[size:] @ matrix).astype(np.float32)
    columns = zip(placed, induced, found[size:], strict=True)
    vectors = {term: vector for term, vector, has_context in columns if has_context}
    return _trial(main, [term for term in hidden if term in vectors], vectors)


def nearest(space: Neighbours, vector: Float32Array, count: int, exclude: str) -> ScoredWords:
    """The main set's words nearest to a vector, without the term itself."""
    found: ScoredWords = space.keyed.similar_by_vector(vector, topn=count + 1)
    return [(word, cosine) for word, cosine in found if word != exclude][:count]


def ranks(main: Float32Array, placed: Float32Array, given: Sequence[int]) -> IntArray:
    """The number of rows of `main` (n, d) that are nearer to each placed vector (k, d), by cosine,
    than the row that was given for it."""
    units = unit(placed)
    own = (units * unit(main[list(given)])).sum(axis=1)
    nearer = np.zeros(len(given), np.int64)
    for first in range(0, len(main), BLOCK):
        nearer += (units @ unit(main[first : first + BLOCK]).T > own[:, None] + 1e-6).sum(axis=1)
    return nearer


def _trial(main: WordSet, hidden: Sequence[str], vectors: dict[str, Float32Array]) -> Trial:
    if len(hidden) < FEWEST_TERMS:
        return Trial(len(hidden), None, vectors)
    placed = np.stack([vectors[term] for term in hidden])
    nearer = ranks(main.vectors, placed, [main.rows[term] for term in hidden])
    return Trial(len(hidden), float((nearer < NEAREST).mean()), vectors)


def _rows(word_set: WordSet, words: Sequence[str]) -> Float32Array:
    """(words, d)"""
    return word_set.vectors[[word_set.rows[word] for word in words]]
