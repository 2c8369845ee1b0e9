"""Slices of the questions by kind, question word, lengths, and OOV words."""

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from models.arrays import BoolArray
from tasks.evaluation.evaluate import EvaluationSplit
from tasks.evaluation.predictions import Columns, mean
from tasks.text.tokenizer import tokenize
from tasks.text.vocabulary import Lexicon, is_known

QUESTION_WORD = re.compile(
    r"\b(how (?:many|much)|how|who|whom|whose|what|when|where|which|why)\b", re.IGNORECASE
)
CONTEXT_EDGES = (100, 150, 200, 300, 400)
ANSWER_EDGES = (1, 2, 3, 5, 10)


@dataclass(frozen=True)
class Slicing:
    """A division of the questions into slices."""

    title: str
    labels: Sequence[str]  # (n,) the slice of each question; left out if not in `names`
    names: Sequence[str]  # the slices, in display order


def slicings(
    split: EvaluationSplit, known: Container[str], vectors: str, lower_case: bool = True
) -> list[Slicing]:
    """All applicable divisions of a split; `known` has the words of the vectors named `vectors`."""
    words = [question_word(question) for question in split.questions]
    by_count = sorted(set(words), key=lambda word: (word == "other", -words.count(word)))
    contexts = split.context_lengths[split.context_of]
    answers = split.span_end - split.span_start + 1
    divisions = [
        Slicing("Question word", words, by_count),
        _by_length("Context length (tokens)", contexts, CONTEXT_EDGES),
        _by_length("Answer length (tokens)", answers, ANSWER_EDGES, split.span_start >= 0),
    ]
    if split.v2 and any(split.golds):
        kinds = ["answerable" if golds else "unanswerable" for golds in split.golds]
        divisions.insert(0, Slicing("Answerable or not", kinds, ["answerable", "unanswerable"]))
    if known:
        has_oov = questions_with_oov_words(split, known, lower_case)
        labels = ["some" if oov else "none" for oov in has_oov]
        title = f"OOV words in question or answers ({vectors})"
        divisions.append(Slicing(title, labels, ["some", "none"]))
    return divisions


def slice_table(slicing: Slicing, answers: Sequence[Columns]) -> dict[str, Any]:
    """The data of the page macro `slice_table`: EM and F1 (percent) of each run, by slice."""
    labels = np.array(slicing.labels)
    rows = [
        {
            "name": name,
            "count": int(mask.sum()),
            "scores": [(mean(run["em"], mask), mean(run["f1"], mask)) for run in answers],
        }
        for name in slicing.names
        if (mask := labels == name).any()
    ]
    return {"title": slicing.title, "rows": rows}


def question_word(question: str) -> str:
    """The first question word, or "other".

    "how much" counts as "how many", "whom" and "whose" as "who".
    """
    match = QUESTION_WORD.search(question)
    word = match[1].lower() if match else "other"
    return {"whom": "who", "whose": "who", "how much": "how many"}.get(word, word)


def length_bucket(length: int, edges: Sequence[int]) -> int:
    """The index of the bucket that contains a length; the edges are inclusive upper bounds."""
    return int(np.searchsorted(edges, length))


def bucket_names(edges: Sequence[int]) -> list[str]:
    """The name of each bucket, such as "up to 100", "101–150", "over 150"."""
    pairs = pairwise([0, *edges])
    middle = [str(high) if high == low + 1 else f"{low + 1}–{high}" for low, high in pairs]
    first = middle[0] if edges[0] == 1 else f"up to {edges[0]}"
    return [first, *middle[1:], f"over {edges[-1]}"]


def _by_length(
    title: str,
    lengths: npt.NDArray[np.integer],
    edges: Sequence[int],
    has_length: npt.NDArray[np.bool_] | None = None,
) -> Slicing:
    names = bucket_names(edges)
    labels = [names[length_bucket(length, edges)] for length in lengths.tolist()]
    if has_length is not None:
        labels = [label if has else "" for label, has in zip(labels, has_length, strict=True)]
    return Slicing(title, labels, names)


def has_oov_word(text: str, known: Container[str], lower_case: bool = True) -> bool:
    """Whether a text has a token that is not `known`; `lower_case` is the case policy."""
    return not all(is_known(text[start:end], known, lower_case) for start, end in tokenize(text))


def questions_with_oov_words(
    split: EvaluationSplit, known: Container[str], lower_case: bool = True
) -> npt.NDArray[np.bool_]:
    """Whether a question or one of its answers has a word that is not `known`, (n,)."""
    return np.array(
        [
            any(has_oov_word(text, known, lower_case) for text in (question, *golds))
            for question, golds in zip(split.questions, split.gold_texts, strict=True)
        ],
        dtype=bool,
    )


def scores_outside_glove(
    split: EvaluationSplit, answers: Columns, known: Container[str]
) -> dict[str, float]:
    """The number and the scores of the `questions_with_oov_words`, for GloVe.

    The metrics are `dev/questions_outside_glove`, and `dev/em_outside_glove` and
    `dev/f1_outside_glove` (percent). `known` has GloVe's words. Empty if there are no such
    questions.
    """
    outside = questions_with_oov_words(split, known)
    if not outside.any():
        return {}
    scores = {f"dev/{name}_outside_glove": mean(answers[name], outside) for name in ("em", "f1")}
    return {"dev/questions_outside_glove": float(outside.sum()), **scores}


def guarded_slices(split: EvaluationSplit, lexicon: Lexicon) -> dict[str, BoolArray]:
    """The slices that a promotion must not harm, as masks (n,); a question may be in several.

    They are: answerable and unanswerable questions (if any question is unanswerable), questions by
    question word, and questions with a word outside the model's vocabulary, in the question or its
    answers. The vocabulary also has frequent words without a vector.
    """
    answerable = np.array([bool(golds) for golds in split.golds])
    slices = {"unanswerable": ~answerable, "answerable": answerable} if split.v2 else {}
    words = np.array([question_word(question) for question in split.questions])
    slices |= {f"question word {word}": words == word for word in sorted(set(words))}
    vocabulary = lexicon.word_indices
    slices["unknown words"] = questions_with_oov_words(split, vocabulary, lexicon.lower_case)
    return slices
