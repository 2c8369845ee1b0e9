"""Fills a set of word vectors with words that it lacks, in its own space.

The given words keep their vectors bit for bit.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from infra.artifacts.manifest import content_digest, facts_of, identity
from infra.errors import UserError
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.source import VectorInput
from tasks.embeddings.formats.store import History, history_of, set_digest, set_name, write_vectors
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.embeddings.training.alignment import Rotation, mean_cosine
from tasks.embeddings.training.config import A_LA_CARTE, EmbeddingSettings
from tasks.embeddings.training.corpus import read_vocabulary
from tasks.text.vocabulary import is_known

# `a_la_carte` is imported locally, because it loads numba, which takes seconds.

WINDOW = 5  # context tokens on each side, unless set
MAX_ANCHORS = 20_000  # common words that fit a rotation: the most frequent of the own set
# With hardly more common words than dimensions, a map fits these words and misplaces all others.
ANCHORS_PER_DIMENSION = 5


def fill_from_corpus(
    out: Path, source: VectorInput, corpus: Path, settings: EmbeddingSettings
) -> dict[str, Any]:
    """Write vectors.parquet with the words of `source`, and those of a prepared corpus that it
    lacks, each induced from its contexts (à la carte, see `a_la_carte`).

    Of the settings, only `window` (5 if empty) and `min_count`, which words need, are used.

    Raises:
        UserError: the corpus has too few words with a vector to fit the map.
    """
    from tasks.embeddings.training.a_la_carte import ANCHORS, fit_map, sum_contexts

    base, counts = load_vectors(str(source)), read_vocabulary(corpus, settings.min_count)
    window = settings.window or WINDOW
    words = list(counts)
    anchors = [row for row, word in enumerate(words) if word in base.rows][:ANCHORS]
    _require_anchors(len(anchors), base, "corpus")  # before the corpus is read
    new = [row for row, word in enumerate(words) if _lacks(base, word)]
    wanted = np.array([*anchors, *new], np.int32)
    contexts = sum_contexts(corpus, facts_of(corpus)["words"], words, base, wanted, window)
    means, in_context = contexts.means, contexts.tokens > 0
    fit = in_context[: len(anchors)]
    _require_anchors(int(fit.sum()), base, "corpus")
    own = base.vectors[[base.rows[words[row]] for row in anchors]][fit]
    anchor_means = means[: len(anchors)][fit]
    anchor_counts = np.array([counts[words[row]] for row in anchors], np.float64)[fit]
    matrix = fit_map(anchor_means, own, anchor_counts)
    ranks = [
        row for row, has_context in zip(new, in_context[len(anchors) :], strict=True) if has_context
    ]
    induced = (means[len(anchors) :][in_context[len(anchors) :]] @ matrix).astype(np.float32)
    history = {
        "method": A_LA_CARTE,
        "corpus": content_digest(corpus),
        "parameters": {"window": window, "min_count": settings.min_count},
    }
    fit_facts = {
        "anchors": len(own),
        "cosine": mean_cosine((anchor_means @ matrix).astype(np.float32), own),
    }
    filled = WordSet([words[row] for row in ranks], induced)
    return _write_filled(out, source, base, filled, ranks, history) | fit_facts


def fill_from_set(out: Path, source: VectorInput, own: VectorInput) -> dict[str, Any]:
    """Write vectors.parquet with the words of `source`, and those of the set `own` that it lacks,
    rotated onto it by the words in common (see `alignment`). The dimensions may differ.

    Raises:
        UserError: the sets have too few words in common.
    """
    base, other = load_vectors(str(source)), load_vectors(str(own))
    common = [row for row, word in enumerate(other.words) if word in base.rows][:MAX_ANCHORS]
    _require_anchors(len(common), base, f"set {set_name(own)}")
    target = base.vectors[[base.rows[other.words[row]] for row in common]]
    rotation = Rotation.fit(other.vectors[common], target)
    ranks = [row for row, word in enumerate(other.words) if _lacks(base, word)]
    filled = WordSet([other.words[row] for row in ranks], rotation.apply(other.vectors[ranks]))
    made = history_of(own)
    history = {
        **made,
        "method": "procrustes",
        "own": set_name(own),
        "own_digest": set_digest(identity(own)),
        "own_method": made["method"],
    }
    fit_facts = {
        "anchors": len(common),
        "cosine": mean_cosine(rotation.apply(other.vectors[common]), target),
    }
    return _write_filled(out, source, base, filled, ranks, history) | fit_facts


def _lacks(base: WordSet, word: str) -> bool:
    """Whether no token spelled like this word has a vector in the set, whatever its quotes."""
    return not is_known(word, base.rows, lower_case=False)


def too_few_anchors(count: int, base: WordSet, name: str) -> str | None:
    """Why `count` common words can't place others in the set `base`; None if they can."""
    needed = ANCHORS_PER_DIMENSION * base.vectors.shape[1]
    if count >= needed:
        return None
    return (
        f"The {name} and the vectors to fill have only {count:,} frequent words in common; at "
        f"least {needed:,} ({ANCHORS_PER_DIMENSION} per dimension) are needed. Add more text of "
        "the same language and case, or fill vectors of a smaller dimension."
    )


def _require_anchors(count: int, base: WordSet, name: str) -> None:
    if obstacle := too_few_anchors(count, base, name):
        raise UserError(obstacle)


def _write_filled(
    out: Path,
    source: VectorInput,
    base: WordSet,
    filled: WordSet,
    ranks: Sequence[int],
    history: History,
) -> dict[str, Any]:
    """Write both sets as one, in the order of their ranks, so that its start, which vocabularies
    keep for later questions, has the frequent words of both."""
    order = np.argsort([*range(len(base.words)), *ranks], kind="stable")
    words = [*base.words, *filled.words]
    vectors = np.concatenate([base.vectors, filled.vectors])[order]
    if base.subwords is not None:
        base.subwords.save(out)
    facts = {"base": set_name(source), "dimension": vectors.shape[1]}
    # The case of a set is that of the words that were there: most tokens have these.
    others = {field: value for field, value in history.items() if field != "lower_case"}
    base_history = history_of(source)
    if "lower_case" in base_history:
        others["lower_case"] = base_history["lower_case"]
    metadata = {**others, **facts, "base_digest": set_digest(identity(source))}
    write_vectors(out, WordSet([words[row] for row in order], vectors), metadata)
    return {
        "method": history["method"],
        "words": len(words),
        "filled": len(filled.words),
        "examples": filled.words[:10],
        **facts,
    }
