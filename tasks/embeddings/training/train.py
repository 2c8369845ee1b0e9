"""Trains a set of word vectors on a prepared corpus."""

from pathlib import Path
from typing import Any

import numpy as np

from infra.artifacts.manifest import content_digest, facts_of, read_manifest
from infra.errors import UserError
from tasks.embeddings.formats.select import dimension_of, load_vectors
from tasks.embeddings.formats.source import VectorInput
from tasks.embeddings.formats.store import write_vectors
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
    told = facts_of(corpus)
    begin = load_vectors(str(start)) if start is not None else None
    if begin is not None:
        _require_same_size(begin.vectors.shape[1], parameters)
        _require_ngrams_kept(begin, parameters)
    trained, facts = _train(out, corpus, told, parameters, begin)
    if begin is not None:
        facts |= _carried_over(trained, begin)
        trained = _with_the_rest(trained, begin)
    if trained.subwords is not None:
        trained.subwords.save(out)
    metadata = {
        "method": parameters.method,
        "dimension": parameters.dimension,
        "corpus": content_digest(corpus),
        "lower_case": read_manifest(corpus)["inputs"]["lower_case"],
        "parameters": parameters.model_dump(),
    }
    write_vectors(out, trained, metadata)
    return {
        "method": parameters.method,
        "dimension": parameters.dimension,
        "words": len(trained.words),
        "corpus": {name: told[name] for name in ("words", "distinct", "paragraphs")},
        **facts,
    }


def _train(
    out: Path,
    corpus: Path,
    told: dict[str, Any],
    parameters: EmbeddingParameters,
    begin: WordSet | None,
) -> tuple[WordSet, dict[str, Any]]:
    if parameters.method == "glove":
        from tasks.embeddings.training.glove import train_glove

        # The counts take gigabytes. They are in `out` so that pruning removes those of killed runs.
        return train_glove(corpus, told, parameters, begin, out)
    return train_by_gensim(corpus, told, parameters, begin)


def require_fitting_start(start: VectorInput, parameters: EmbeddingParameters) -> None:
    """Check the warm-start set before the corpus is read, from the beginning of its file only.

    Raises:
        UserError: it is missing, is not a set of vectors, or has another dimension.
    """
    _require_same_size(dimension_of(str(start)), parameters)


def _require_same_size(given: int, parameters: EmbeddingParameters) -> None:
    if given != parameters.dimension:
        raise UserError(
            f"The vectors to go on from have {given} numbers a word, and {parameters.dimension} "
            f"are asked for: set dimension to {given}."
        )


def _require_ngrams_kept(begin: WordSet, parameters: EmbeddingParameters) -> None:
    """Raises UserError if the method or the n-gram settings would discard the set's n-grams."""
    if begin.subwords is None:
        return
    if parameters.method != "fasttext":
        raise UserError(
            f"The vectors to go on from (start) have fasttext's n-grams, which {parameters.method} "
            "would lose: set method to fasttext, or start to an export without n-grams."
        )
    fields = ("buckets", "min_ngram", "max_ngram")
    given = dict(zip(fields, begin.subwords.kind, strict=True))
    wrong = [name for name in fields if given[name] != getattr(parameters, name)]
    if wrong:
        asked = ", ".join(f"{name} {getattr(parameters, name)}" for name in wrong)
        wanted = ", ".join(f"{name} to {given[name]}" for name in wrong)
        raise UserError(
            f"The vectors to go on from have n-grams of another kind than {asked}: set {wanted}."
        )


def _carried_over(trained: WordSet, begin: WordSet) -> dict[str, Any]:
    """How many words were initialised from `begin`, are new, or keep their vectors of `begin`."""
    shared = sum(word in begin.rows for word in trained.words)
    return {
        "carried_over": shared,
        "new": len(trained.words) - shared,
        "unchanged": len(begin.words) - shared,
    }


def _with_the_rest(trained: WordSet, begin: WordSet) -> WordSet:
    rest = [row for word, row in begin.rows.items() if word not in trained.rows]
    words = [*trained.words, *(begin.words[row] for row in rest)]
    vectors = np.concatenate([trained.vectors, begin.vectors[rest]])
    return WordSet(words, vectors, trained.subwords)
