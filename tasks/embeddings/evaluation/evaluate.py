"""Evaluates a set of word vectors: coverage, similarity, analogies, bias, neighbours."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from infra.errors import UserError
from infra.form import Form
from infra.run_logger import logger
from tasks.embeddings.contextual.source import BilmInput
from tasks.embeddings.evaluation.coverage import coverage_by_band
from tasks.embeddings.evaluation.homonyms import (
    HOMONYMS,
    MEAN_OF_CONTEXT,
    mean_of_context,
    read_homonyms,
    sense_accuracy,
    split_query,
)
from tasks.embeddings.evaluation.nearest_neighbors import (
    Neighbours,
    ScoredWords,
)
from tasks.embeddings.evaluation.published_tests import (
    ANALOGIES,
    SIMILARITY_TESTS,
    Accuracy,
    analogies,
    similarity,
)
from tasks.embeddings.evaluation.weat import TESTS, weat
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.source import VectorInput, short_name
from tasks.embeddings.formats.store import History, history_of, set_name
from tasks.text.split_texts import form_counts

EVALUATION = "evaluation.json"
# The metrics of each part of an evaluation: the suffix of the metric's name, and the field.
METRICS = {
    "similarity": {"": "spearman", ".covered": "covered"},
    "homonyms": {"": "accuracy"},
    "analogies": {"": "accuracy"},
    "coverage": {".tokens": "tokens_covered", ".types": "types_covered"},
    "bias": {"": "effect", ".p": "p"},
}


# The characters in names of tests that MLflow rejects in names of metrics.
REJECTED = str.maketrans({":": " -", ",": "", "'": ""})


def check_analogy(question: str) -> str:
    """Return `question` if it has three words. Raises ValueError otherwise."""
    if len(question.split()) != 3:
        raise ValueError(
            f"an analogy needs three words, such as `man king woman`, not {question!r}"
        )
    return question


def check_sentence(query: str) -> str:
    """Return `query` if it is a word and a sentence that has it. Raises ValueError otherwise."""
    word, sentence = split_query(query)
    if word.lower() not in map(str.lower, sentence):
        raise ValueError(
            "expected a word and a sentence with it, such as `club: He swung the club.`, not "
            f"{query!r}"
        )
    return query


class Queries(Form):
    """Words, words in sentences, and analogies to look up in a set."""

    words: list[str] = Field([], description="Words whose nearest neighbours are listed.")
    sentences: list[Annotated[str, AfterValidator(check_sentence)]] = Field(
        [],
        description="A word and a sentence with it each, such as `club: He swung the club.`, whose "
        "nearest neighbours are listed: for a language model those of the word in this sentence, "
        "for other sets those of the word. On the command line, sentences with commas are given "
        "as a JSON list.",
    )
    analogies: list[Annotated[str, AfterValidator(check_analogy)]] = Field(
        [],
        description="Three words each: `man king woman` asks what is to woman as king is to man.",
    )


def evaluate_vectors(
    out: Path,
    source: VectorInput,
    tests: Sequence[Path],
    splits: Sequence[Path],
    queries: Queries,
    lower_case: bool = True,
) -> dict[str, Any]:
    """Evaluate a set of vectors and write the results to evaluation.json.

    `tests` are the files of published tests, under their original names. `splits` are ingested
    splits, whose word coverage is measured. `lower_case` says whether words are lower-cased before
    they are looked up or composed from n-grams.

    Raises:
        UserError: the set or a test can't be read, or the set is empty.
    """
    logger().info(f"Evaluating {set_name(source)}; a large set takes a minute.")
    word_set = load_vectors(str(source))
    if not word_set.words:
        raise UserError(f"{source} contains no words to evaluate; choose another set.")
    space = Neighbours(word_set, lower_case)
    files = {file.name: file for file in tests}
    evaluation = {
        "words": len(word_set.words),
        "dimension": word_set.vectors.shape[1],
        "subwords": word_set.subwords is not None,
        "coverage": coverage_by_band(space.rows, form_counts(splits), lower_case) if splits else {},
        "similarity": {
            name: similarity(space, files[test.name])
            for name, test in SIMILARITY_TESTS.items()
            if test.name in files
        },
        "homonyms": _homonyms(space, files[HOMONYMS.name]) if HOMONYMS.name in files else {},
        "analogies": analogies(space, files[ANALOGIES.name]) if ANALOGIES.name in files else {},
        "bias": {name: weat(space, test) for name, test in TESTS.items()},
        # A word that this set lacks has none, as another set may have it.
        "neighbours": {
            query: space.neighbours(word) if space.vector(word) is not None else []
            for query, word in _asked_words(queries)
        },
        "asked": {question: _answer(space, question) for question in queries.analogies},
    }
    return write_evaluation(out, source, evaluation, history_of(source))


def write_evaluation(
    out: Path, source: VectorInput | BilmInput, evaluation: dict[str, Any], history: History
) -> dict[str, Any]:
    """Write evaluation.json. Returns the facts about it: what was evaluated, and the metrics."""
    (out / EVALUATION).write_text(json.dumps(evaluation, indent=1) + "\n", encoding="utf-8")
    return {
        "source": short_name(str(source)),
        "words": evaluation["words"],
        "dimension": evaluation["dimension"],
        "history": history,
        "metrics": metrics(evaluation),
    }


def _asked_words(queries: Queries) -> list[tuple[str, str]]:
    """Each query with the word that it is about."""
    in_sentences = [(query, split_query(query)[0]) for query in queries.sentences]
    return [*((word, word) for word in queries.words), *in_sentences]


def _homonyms(space: Neighbours, file: Path) -> dict[str, Accuracy]:
    occurrences = read_homonyms(file)
    vectors = [mean_of_context(space, occurrence) for occurrence in occurrences]
    return {MEAN_OF_CONTEXT: sense_accuracy(occurrences, vectors)}


def _answer(space: Neighbours, question: str) -> ScoredWords:
    a, b, c = question.split()
    if any(space.vector(word) is None for word in (a, b, c)):
        return []
    return space.analogy(a, b, c)


def metrics(evaluation: dict[str, Any]) -> dict[str, float]:
    """The numbers of an evaluation by MLflow metric name; metrics without a value are omitted."""
    return {
        f"{part}/{name.translate(REJECTED)}{suffix}": result[field]
        for part, fields in METRICS.items()
        for name, result in evaluation[part].items()
        for suffix, field in fields.items()
        if result[field] is not None
    }
