"""Evaluates a language model's contextual vectors: homonyms, similarity, neighbours, a map."""

import json
from collections.abc import Container, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from infra.run_logger import logger
from models.arrays import Float32Array
from tasks.embeddings.contextual.select_bilm import read_bilm
from tasks.embeddings.contextual.source import BilmInput
from tasks.embeddings.evaluation.coverage import coverage_by_band
from tasks.embeddings.evaluation.evaluate import EVALUATION, Queries, metrics
from tasks.embeddings.evaluation.homonyms import (
    HOMONYMS,
    Occurrence,
    position_of,
    read_homonyms,
    sense_accuracy,
    split_query,
)
from tasks.embeddings.evaluation.nearest_neighbors import ScoredWords, coordinates, unit
from tasks.embeddings.evaluation.published_tests import SIMILARITY_TESTS, read_pairs, similarity
from tasks.embeddings.formats.source import short_name
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
SHOWN_WORD = "club"  # on the map, unless the queries name another word of the test


class AllWords(Container[str]):
    """The vocabulary of a model that reads characters: every word."""

    def __contains__(self, word: object) -> bool:
        return True


class WordLayer:
    """Layer 0 of some words, which does not depend on the sentence, as a set of word vectors.

    Words are in the case in which the model reads them.
    """

    def __init__(self, model: "FrozenBiLM", words: Sequence[str]) -> None:
        self.lower_case = model.lower_case
        self.words = list(dict.fromkeys(case_key(word, self.lower_case) for word in words))
        self.vectors = unit(model.word_vectors(self.words))
        self.rows = {word: row for row, word in enumerate(self.words)}

    def row(self, word: str) -> int | None:
        """The word's row; None if it is not one of the words."""
        return self.rows.get(case_key(word, self.lower_case))

    def vector(self, word: str) -> Float32Array | None:
        """The word's unit vector (d,); None if it is not one of the words."""
        row = self.row(word)
        return None if row is None else self.vectors[row]


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
    evaluation: dict[str, Any] = {
        "words": None,
        "dimension": size,
        "subwords": False,
        "coverage": coverage_by_band(AllWords(), counts, lower_case) if splits else {},
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
        "map": _map(occurrences, layers, queries, best),
        "layer": best,
    }
    (out / EVALUATION).write_text(json.dumps(evaluation, indent=1) + "\n", encoding="utf-8")
    return {
        "source": short_name(str(source)),
        "words": None,
        "dimension": size,
        "history": history,
        "metrics": metrics(evaluation),
    }


def _similarity(model: "FrozenBiLM", file: Path) -> Any:
    words = [word for left, right, _ in read_pairs(file) for word in (left, right)]
    return similarity(WordLayer(model, words), file)


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
        space = WordLayer(model, [*queries.words, *forms[:POOL_WORDS], *known])
        nearest |= {word: _nearest_words(space, word) for word in queries.words}
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


def _nearest_words(space: WordLayer, word: str) -> ScoredWords:
    own = space.row(word)
    assert own is not None  # the space was made of the queries, too
    cosines = space.vectors @ space.vectors[own]
    order = np.argsort(-cosines, kind="stable")
    others = order[order != own][:NEIGHBOURS]
    return [(space.words[row], float(cosines[row])) for row in others]


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


def _map(
    occurrences: Sequence[Occurrence],
    layers: Sequence[Float32Array],
    queries: Queries,
    layer: int,
) -> list[tuple[str, float, float, str]]:
    """The occurrences of one word: the words around it, x and y (0 to 1), and the sense."""
    homonyms = {occurrence.word for occurrence in occurrences}
    asked = [*queries.words, *(split_query(query)[0] for query in queries.sentences)]
    shown = next((word for word in asked if word in homonyms), SHOWN_WORD)
    chosen = [
        (o, text[o.position, layer])
        for o, text in zip(occurrences, layers, strict=True)
        if o.word == shown
    ]
    points = coordinates(unit(np.array([vector for _, vector in chosen])))
    return [
        (_shown(o.sentence, o.position), float(x), float(y), o.sense)
        for (o, _), (x, y) in zip(chosen, points, strict=True)
    ]
