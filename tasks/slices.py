"""The slices of the questions: by kind, question word, lengths, and words without a vector."""

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.evaluation import EvaluationSplit
from tasks.outside import outside_vectors
from tasks.predictions import Columns, mean

QUESTION_WORD = re.compile(
    r"\b(how (?:many|much)|how|who|whom|whose|what|when|where|which|why)\b", re.IGNORECASE
)
CONTEXT_EDGES = (100, 150, 200, 300, 400)
ANSWER_EDGES = (1, 2, 3, 5, 10)


@dataclass(frozen=True)
class Slicing:
    """A division of the questions."""

    title: str
    labels: Sequence[str]  # (n,) the slice of each question; one that is not in `names` is left out
    names: Sequence[str]  # the slices, in the order in which they are shown


def slicings(
    split: EvaluationSplit, known: Container[str], vectors: str, lower_case: bool = True
) -> list[Slicing]:
    """All divisions that make sense for a split; `known` are the words that `vectors` has."""
    words = [question_word(question) for question in split.questions]
    by_count = sorted(set(words), key=lambda word: (word == "other", -words.count(word)))
    contexts = split.context_lengths[split.context_of]
    answers = split.span_end - split.span_start + 1
    found = [
        Slicing("Question word", words, by_count),
        _by_length("Context length, in words and signs", contexts, CONTEXT_EDGES),
        _by_length(
            "Answer length, in words and signs", answers, ANSWER_EDGES, split.span_start >= 0
        ),
    ]
    if split.v2 and any(split.golds):
        kinds = ["answerable" if golds else "unanswerable" for golds in split.golds]
        found.insert(0, Slicing("Answerable or not", kinds, ["answerable", "unanswerable"]))
    if known:
        lacking = outside_vectors(split, known, lower_case)
        outside = ["some" if lacks else "none" for lacks in lacking]
        title = f"Words of question or answers outside {vectors}"
        found.append(Slicing(title, outside, ["some", "none"]))
    return found


def slice_table(slicing: Slicing, answers: Sequence[Columns]) -> dict[str, Any]:
    """What the pages' macro `slice_table` shows: EM and F1 of some runs' answers, by slice."""
    of = np.array(slicing.labels)
    rows = [
        {
            "name": name,
            "count": int(mask.sum()),
            "scores": [(mean(one["em"], mask), mean(one["f1"], mask)) for one in answers],
        }
        for name in slicing.names
        if (mask := of == name).any()
    ]
    return {"title": slicing.title, "rows": rows}


def question_word(question: str) -> str:
    """The first question word in a question, "how many" and "how much" as one, else "other"."""
    found = QUESTION_WORD.search(question)
    word = found[1].lower() if found else "other"
    return {"whom": "who", "whose": "who", "how much": "how many"}.get(word, word)


def length_bucket(length: int, edges: Sequence[int]) -> int:
    """The number of the bucket whose upper edge, inclusive, is the first not below the length."""
    return int(np.searchsorted(edges, length))


def bucket_names(edges: Sequence[int]) -> list[str]:
    """What each bucket holds, such as "up to 100", "101–150", "over 150"."""
    pairs = pairwise([0, *edges])
    middle = [str(high) if high == low + 1 else f"{low + 1}–{high}" for low, high in pairs]
    first = middle[0] if edges[0] == 1 else f"up to {edges[0]}"
    return [first, *middle[1:], f"over {edges[-1]}"]


def _by_length(
    title: str,
    lengths: npt.NDArray[np.integer],
    edges: Sequence[int],
    known: npt.NDArray[np.bool_] | None = None,
) -> Slicing:
    names = bucket_names(edges)
    labels = [names[length_bucket(length, edges)] for length in lengths.tolist()]
    if known is not None:
        labels = [name if there else "" for name, there in zip(labels, known, strict=True)]
    return Slicing(title, labels, names)
