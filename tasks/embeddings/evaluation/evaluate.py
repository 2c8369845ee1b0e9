"""Evaluates a set of word vectors: coverage, similarity, analogies, bias, neighbours, 2-D map."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from infra.errors import UserError
from tasks.embeddings.evaluation.analogies import ANALOGIES, analogies
from tasks.embeddings.evaluation.coverage import coverage_by_band
from tasks.embeddings.evaluation.nearest_neighbors import Found, Neighbours
from tasks.embeddings.evaluation.projection import map_words, project
from tasks.embeddings.evaluation.similarity import SIMILARITY_TESTS, similarity
from tasks.embeddings.evaluation.weat import TESTS, weat
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.source import VectorInput, short_name
from tasks.embeddings.formats.store import history_of
from tasks.text.build_vocabulary import form_counts

JUDGEMENT = "judgement.json"


def check_analogy(question: str) -> str:
    """Return `question` if it has three words. Raises ValueError otherwise."""
    if len(question.split()) != 3:
        raise ValueError(f"an analogy is asked by three words, like `man king woman`: {question!r}")
    return question


class Asked(BaseModel):
    """Words and analogies to look up in a set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    words: list[str] = Field([], description="Words whose neighbours are listed.")
    analogies: list[Annotated[str, AfterValidator(check_analogy)]] = Field(
        [], description="Three words each: `man king woman` asks what is to woman as king to man."
    )


def judge_vectors(
    out: Path,
    source: VectorInput,
    tests: Sequence[Path],
    splits: Sequence[Path],
    asked: Asked,
    lower_case: bool = True,
) -> dict[str, Any]:
    """Evaluate a set of vectors and write the results to judgement.json.

    `tests` are the files of published tests, under their original names. `splits` are ingested
    splits, whose word coverage is measured. `lower_case` says whether words are lower-cased before
    they are looked up or composed from n-grams.

    Raises:
        UserError: the set or a test can't be read, or the set is empty.
    """
    chosen = load_vectors(str(source))
    if not chosen.words:
        raise UserError(f"{source} holds no words to judge.")
    space = Neighbours(chosen, lower_case)
    files = {file.name: file for file in tests}
    judgement = {
        "words": len(chosen.words),
        "dimension": chosen.vectors.shape[1],
        "subwords": chosen.subwords is not None,
        "coverage": coverage_by_band(space, form_counts(splits), lower_case) if splits else {},
        "similarity": {
            name: similarity(space, files[test.name])
            for name, test in SIMILARITY_TESTS.items()
            if test.name in files
        },
        "analogies": analogies(space, files[ANALOGIES.name]) if ANALOGIES.name in files else {},
        "bias": {name: weat(space, test) for name, test in TESTS.items()},
        "neighbours": {word: _neighbours(space, word) for word in asked.words},
        "asked": {question: _answer(space, question) for question in asked.analogies},
        "map": project(space, map_words(space, asked.words)),
    }
    (out / JUDGEMENT).write_text(json.dumps(judgement, indent=1) + "\n", encoding="utf-8")
    return {
        "source": short_name(str(source)),
        "words": len(chosen.words),
        "dimension": chosen.vectors.shape[1],
        "history": history_of(source),
        "metrics": metrics(judgement),
    }


def _neighbours(space: Neighbours, word: str) -> Found:
    """The word's neighbours; empty if this set lacks the word, as another set may have it."""
    return space.neighbours(word) if space.vector(word) is not None else []


def _answer(space: Neighbours, question: str) -> Found:
    a, b, c = question.split()
    if any(space.vector(word) is None for word in (a, b, c)):
        return []
    return space.analogy(a, b, c)


def metrics(judgement: dict[str, Any]) -> dict[str, float]:
    """The numbers of an evaluation by MLflow metric name; metrics without a value are omitted."""
    found: dict[str, float | None] = {}
    for name, result in judgement["similarity"].items():
        found[f"similarity/{name}"] = result["spearman"]
        found[f"similarity/{name}.covered"] = result["covered"]
    for name, result in judgement["analogies"].items():
        found[f"analogies/{name}"] = result["accuracy"]
    for name, band in judgement["coverage"].items():
        found[f"coverage/{name}.tokens"] = band["tokens_covered"]
        found[f"coverage/{name}.types"] = band["types_covered"]
    for name, result in judgement["bias"].items():
        label = name.replace(":", " -").replace(",", "").replace("'", "")
        found[f"bias/{label}"] = result["effect"]
        found[f"bias/{label}.p"] = result["p"]
    return {name: value for name, value in found.items() if value is not None}
