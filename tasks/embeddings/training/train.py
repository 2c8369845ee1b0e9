"""Trains a set of word vectors on a prepared corpus."""

from pathlib import Path
from typing import Any

import numpy as np

from infra.artifacts.manifest import content_digest, facts_of, identity, read_manifest
from infra.errors import UserError
from tasks.embeddings.formats.select import dimension_of, load_vectors
from tasks.embeddings.formats.source import VectorInput
from tasks.embeddings.formats.store import History, set_digest, set_name, write_vectors
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.embeddings.training.word2vec import train_by_gensim

# GloVe's training is imported locally, because it loads numba, which takes seconds.


def train_vectors(
    out: Path, corpus: Path, parameters: EmbeddingParameters, start: VectorInput | None = None
) -> dict[str, Any]:
    """Train vectors. Writes vectors.parquet, most frequent words first, and for fastText also
    subwords.safetensors.

    `corpus` is a folder written by `prepare_corpus`. `start` is a set of vectors for a warm start:
    its vectors initialise the corpus's words. Its other words are appended with their vectors
    unchanged.

    Raises:
        UserError: too few words occur often enough, or `start` can't be read or is incompatible.
    """
    corpus_facts = facts_of(corpus)
    start_set = None if start is None else _load_start(start, parameters)
    if parameters.method == "glove":
        from tasks.embeddings.training.glove import train_glove

        # The counts take gigabytes. They are in `out` so that pruning removes those of killed runs.
        trained, facts = train_glove(corpus, corpus_facts, parameters, start_set, scratch=out)
    else:
        trained, facts = train_by_gensim(corpus, corpus_facts, parameters, start_set)
    start_history: History = {}
    if start is not None and start_set is not None:
        trained, warm_start_facts = _append_unchanged(trained, start_set)
        start_history = {"start": set_digest(identity(start)), "start_name": set_name(start)}
        facts |= warm_start_facts | {"start": start_history["start_name"]}
    if trained.subwords is not None:
        trained.subwords.save(out)
        # The vocabulary has chosen their number, unless it was set.
        parameters = parameters.model_copy(update={"buckets": len(trained.subwords.ngrams)})
    write_vectors(
        out,
        trained,
        {
            "method": parameters.method,
            "corpus": content_digest(corpus),
            "lower_case": read_manifest(corpus)["inputs"]["lower_case"],
            "parameters": parameters.model_dump(),
            **start_history,
        },
    )
    return {
        "method": parameters.method,
        "dimension": parameters.dimension,
        "words": len(trained.words),
        "corpus": {name: corpus_facts[name] for name in ("words", "distinct", "paragraphs")},
        **facts,
    }


def require_compatible_start(start: VectorInput, parameters: EmbeddingParameters) -> None:
    """Check the warm-start set before the corpus is read, from the beginning of its file only.

    Raises:
        UserError: it is missing, is not a set of vectors, or has another dimension.
    """
    dimension = dimension_of(str(start))
    if dimension != parameters.dimension:
        raise UserError(
            f"The start vectors have dimension {dimension}, but dimension is set to "
            f"{parameters.dimension}. Set it to {dimension}."
        )


def _load_start(start: VectorInput, parameters: EmbeddingParameters) -> WordSet:
    """The warm-start set.

    Raises:
        UserError: it is incompatible, or the method or the n-gram settings would discard its
            n-grams.
    """
    require_compatible_start(start, parameters)
    start_set = load_vectors(str(start))
    if start_set.subwords is None:
        return start_set
    if parameters.method != "fasttext":
        raise UserError(
            f"The start vectors have n-grams, which method {parameters.method!r} would discard. "
            "Set method to fasttext, or set start to an export without n-grams."
        )
    fields = ("buckets", "min_ngram", "max_ngram")
    expected = dict(zip(fields, start_set.subwords.ngram_settings, strict=True))
    differing = [name for name in fields if getattr(parameters, name) not in (None, expected[name])]
    if differing:
        actual = ", ".join(f"{name} {getattr(parameters, name)}" for name in differing)
        changes = ", ".join(f"{name} to {expected[name]}" for name in differing)
        raise UserError(
            f"The n-gram settings ({actual}) differ from those of the start vectors. Set {changes}."
        )
    return start_set


def _append_unchanged(trained: WordSet, start_set: WordSet) -> tuple[WordSet, dict[str, int]]:
    """The trained words and the rest of `start_set`; and how many words were warm-started, are new,
    or keep their vectors."""
    rest = [row for word, row in start_set.rows.items() if word not in trained.rows]
    shared = len(start_set.words) - len(rest)
    words = [*trained.words, *(start_set.words[row] for row in rest)]
    vectors = np.concatenate([trained.vectors, start_set.vectors[rest]])
    return WordSet(words, vectors, trained.subwords), {
        "carried_over": shared,
        "new": len(trained.words) - shared,
        "unchanged": len(rest),
    }
