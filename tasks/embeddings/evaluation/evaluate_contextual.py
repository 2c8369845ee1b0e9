"""Evaluates a language model's contextual vectors: homonyms, similarity, neighbours."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infra.run_logger import logger
from models.arrays import Float32Array
from tasks.embeddings.contextual.select_bilm import read_bilm
from tasks.embeddings.contextual.source import BilmInput
from tasks.embeddings.evaluation.coverage import coverage_by_band
from tasks.embeddings.evaluation.evaluate import Queries, write_evaluation
from tasks.embeddings.evaluation.homonyms import (
    HOMONYMS,
    Occurrence,
    position_of,
    read_homonyms,
    sense_accuracy,
    split_query,
)
from tasks.embeddings.evaluation.nearest_neighbors import (
    Neighbours,
    ScoredWords,
    unit,
)
from tasks.embeddings.evaluation.published_tests import SIMILARITY_TESTS, read_pairs, similarity
from tasks.embeddings.formats.source import short_name
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.text.split_texts import form_counts, read_texts
from tasks.text.vocabulary import case_key

if TYPE_CHECKING:
    from tasks.embeddings.contextual.frozen_bilm import FrozenBiLM

# The language model is imported locally: flows import this file, and torch takes seconds to load.

# Contexts of a dataset in whose words neighbours are looked for, besides the homonym test's.
POOL_CONTEXTS = 300
POOL_WORDS = 20_000  # most frequent words of a dataset whose layer 0 is compared
NEIGHBOURS = 10
WINDOW = 2  # words on each side that a neighbour is shown with


def word_space(model: "FrozenBiLM", words: Sequence[str]) -> Neighbours:
    """Layer 0 of some words, which does not depend on the sentence, as a set of word vectors.

    Words are in the case in which the model reads them.
    """
    keys = list(dict.fromkeys(case_key(word, model.lower_case) for word in words))
    return Neighbours(WordSet(keys, model.word_vectors(keys)), model.lower_case)


def evaluate_bilm(
    out: Path,
    source: BilmInput,
    tests: Sequence[Path],
    splits: Sequence[Path],
    queries: Queries,
    lower_case: bool = True,
) -> dict[str, Any]:
    """Evaluate a language model and write the results to evaluation.json.

    The arguments are as for `evaluate_vectors`, but `lower_case` only says whether coverage counts
    words in lower case: the model reads them as its training did. Similarity is that of layer 0.
    Analogies and bias are left out, because they need a vocabulary of word vectors.

    Raises:
        UserError: the model or a test can't be read.
    """
    logger().info(f"Evaluating {short_name(str(source))}; this takes a minute.")
    model, history = read_bilm(source)
    model.on_gpu()
    files = {file.name: file for file in tests}
    occurrences = read_homonyms(files[HOMONYMS.name])
    layers = model.layers([occurrence.sentence for occurrence in occurrences])
    count, size = model.bilm.config.layers_shape
    homonyms = {
        f"layer {k}": sense_accuracy(
            occurrences,
            [text[o.position, k] for o, text in zip(occurrences, layers, strict=True)],
        )
        for k in range(count)
    }
    best = max(range(count), key=lambda k: homonyms[f"layer {k}"]["accuracy"] or 0)
    counts = form_counts(splits) if splits else {}
    readable = {case_key(form, lower_case) for form in counts}  # every word: it reads characters
    evaluation: dict[str, Any] = {
        "words": None,
        "dimension": size,
        "subwords": False,
        "coverage": coverage_by_band(readable, counts, lower_case) if splits else {},
        "similarity": {
            name: _similarity(model, files[test.name])
            for name, test in SIMILARITY_TESTS.items()
            if test.name in files
        },
        "homonyms": homonyms,
        "analogies": {},
        "bias": {},
        "neighbours": _neighbours(model, occurrences, splits, list(counts), queries, best),
        "asked": {question: [] for question in queries.analogies},
        "layer": best,
    }
    return write_evaluation(out, source, evaluation, history)


def _similarity(model: "FrozenBiLM", file: Path) -> Any:
    words = [word for left, right, _ in read_pairs(file) for word in (left, right)]
    return similarity(word_space(model, words), file)


def _neighbours(
    model: "FrozenBiLM",
    occurrences: Sequence[Occurrence],
    splits: Sequence[Path],
    forms: Sequence[str],
    queries: Queries,
    layer: int,
) -> dict[str, ScoredWords]:
    """The nearest neighbours of the queries: of words by layer 0, and of a word in its sentence by
    the given layer, among the words of other sentences."""
    sentences = [occurrence.sentence for occurrence in occurrences]
    known = [word for sentence in sentences for word in sentence]
    nearest: dict[str, ScoredWords] = {}
    if queries.words:
        space = word_space(model, [*queries.words, *forms[:POOL_WORDS], *known])
        nearest |= {word: space.neighbours(word, NEIGHBOURS) for word in queries.words}
    if queries.sentences:
        pool = sentences + [
            words
            for split in splits
            for _, words in islice(read_texts(split / "contexts.parquet"), POOL_CONTEXTS)
        ]
        places = [(text, position) for text in pool for position in range(len(text))]
        vectors = unit(np.concatenate(model.layers(pool, layer)))
        for query in queries.sentences:
            word, sentence = split_query(query)
            (own,) = model.layers([sentence], layer)
            vector = unit(own[position_of(word, sentence)])
            nearest[query] = _nearest_places(places, vectors @ vector, sentence)
    return nearest


def _nearest_places(
    places: Sequence[tuple[list[str], int]], cosines: Float32Array, asked: list[str]
) -> ScoredWords:
    """The nearest words of other sentences, each with the words around it."""
    found: dict[str, float] = {}
    for row in np.argsort(-cosines, kind="stable"):
        sentence, position = places[row]
        if sentence != asked:
            found.setdefault(_shown(sentence, position), float(cosines[row]))
        if len(found) == NEIGHBOURS:
            break
    return list(found.items())


def _shown(sentence: Sequence[str], position: int) -> str:
    """A word between quotes, with the words around it."""
    before = sentence[max(position - WINDOW, 0) : position]
    after = sentence[position + 1 : position + 1 + WINDOW]
    return " ".join([*before, f"“{sentence[position]}”", *after])
