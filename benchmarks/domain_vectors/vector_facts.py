"""Facts about an arm's vectors: how they were made, the words that they add, and coverage."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from infra.artifacts.manifest import facts_of, stages_folder
from tasks.embeddings.advice.dataset_words import DatasetWords, read_dataset_words
from tasks.embeddings.advice.question_coverage import covered_words, question_coverage
from tasks.embeddings.formats.select import load_vectors, packaged_words
from tasks.embeddings.formats.source import JoinedVectors, VectorInput
from tasks.embeddings.formats.store import history_of

# The fields of a question coverage that count questions.
PLACES = ("missing_in_question", "missing_in_answer", "missing_nearby", "missing")


def vector_facts(
    vectors: VectorInput | JoinedVectors, dev: Path, part_of: Sequence[str]
) -> dict[str, Any]:
    """How the sets were made, with the facts of the stages that filled or trained them; the number
    of words that they add to GloVe; and for each part of the dev questions, how many have a word
    without a vector. `part_of` has the part of each question."""
    sets = vectors.parts if isinstance(vectors, JoinedVectors) else (vectors,)
    words = frozenset(word for part in sets for word in load_vectors(str(part)).words)
    dataset = read_dataset_words([dev], words, lower_case=True)
    return {
        "sets": [_set_facts(part) for part in sets],
        "words": len(words),
        "added": len(words - packaged_words()),
        "questions": question_counts(dataset, words, part_of),
    }


def _set_facts(vectors: VectorInput) -> dict[str, Any]:
    """The history of a set, and the facts of the stage that made it, if one did, without words."""
    folder = Path(str(vectors)).parent
    made = facts_of(folder) if folder.is_relative_to(stages_folder()) else {}
    return {k: v for k, v in {**history_of(vectors), **made}.items() if k != "examples"}


def question_counts(
    dataset: DatasetWords, words: frozenset[str], part_of: Sequence[str]
) -> dict[str, dict[str, int]]:
    """For each part, its number of questions, and of those with a word outside `words` in the
    question, in the answer, near it, and at any of these places."""
    covered = covered_words(dataset, words)
    counts = {}
    for part in sorted(set(part_of)):
        own = [q for q, other in zip(dataset.questions, part_of, strict=True) if other == part]
        coverage = question_coverage(replace(dataset, questions=own), covered)
        counts[part] = {"all": len(own)} | {place: getattr(coverage, place) for place in PLACES}
    return counts
