"""Slices of the questions by kind, question word, lengths, and OOV words."""

import re
from collections.abc import Container, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from models.arrays import BoolArray, IntArray
from tasks.datasets.feedback import FEEDBACK
from tasks.evaluation.evaluate import Columns, EvaluationSplit, mean
from tasks.text.tokenizer import tokenize
from tasks.text.vocabulary import Lexicon, is_known

QUESTION_WORD = re.compile(
    r"\b(how (?:many|much)|how|who|whom|whose|what|when|where|which|why)\b", re.IGNORECASE
)
CONTEXT_EDGES = (100, 150, 200, 300, 400)
ANSWER_EDGES = (1, 2, 3, 5, 10)


# A division of the questions: the slice of each, (n,), and the slices in display order. Questions
# whose slice is not among these are left out.
Slicing = tuple[npt.NDArray[np.str_], Sequence[str]]


def slice_tables(
    split: EvaluationSplit,
    answers: Sequence[Columns],
    known: Container[str],
    vectors: str,
    lower_case: bool = True,
) -> list[dict[str, Any]]:
    """EM and F1 (percent) of each run by slice, for all applicable divisions of a split.

    `known` has the words of the vectors named `vectors`. Each item is the data of the page macro
    `slice_table`.
    """
    words = [question_word(question) for question in split.questions]
    by_count = sorted(set(words), key=lambda word: (word == "other", -words.count(word)))
    answer_lengths = np.where(split.span_start >= 0, split.span_end - split.span_start + 1, -1)
    slicings: dict[str, Slicing] = {}
    if split.v2 and split.answerable.any():
        kinds = np.where(split.answerable, "answerable", "unanswerable")
        slicings["Answerable or not"] = kinds, ["answerable", "unanswerable"]
    slicings |= {
        "Question word": (np.array(words), by_count),
        "Context length (tokens)": by_length(
            split.context_lengths[split.context_of], CONTEXT_EDGES
        ),
        "Answer length (tokens)": by_length(answer_lengths, ANSWER_EDGES),
    }
    if known:
        has_oov = np.where(questions_with_oov_words(split, known, lower_case), "some", "none")
        slicings[f"OOV words in question or answers ({vectors})"] = has_oov, ["some", "none"]
    return [
        {"title": title, "rows": _slice_rows(slicing, answers)}
        for title, slicing in slicings.items()
    ]


def _slice_rows(slicing: Slicing, answers: Sequence[Columns]) -> list[dict[str, Any]]:
    labels, names = slicing
    return [
        {
            "name": name,
            "count": int(mask.sum()),
            "scores": [(mean(run["em"][mask]), mean(run["f1"][mask])) for run in answers],
        }
        for name in names
        if (mask := labels == name).any()
    ]


def question_word(question: str) -> str:
    """The first question word, or "other".

    "how much" counts as "how many", "whom" and "whose" as "who".
    """
    match = QUESTION_WORD.search(question)
    word = match[1].lower() if match else "other"
    return {"whom": "who", "whose": "who", "how much": "how many"}.get(word, word)


def bucket_names(edges: Sequence[int]) -> list[str]:
    """The name of each bucket, such as "up to 100", "101–150", "over 150".

    The edges are inclusive upper bounds.
    """
    pairs = pairwise([0, *edges])
    middle = [str(high) if high == low + 1 else f"{low + 1}–{high}" for low, high in pairs]
    first = middle[0] if edges[0] == 1 else f"up to {edges[0]}"
    return [first, *middle[1:], f"over {edges[-1]}"]


def by_length(lengths: IntArray, edges: Sequence[int]) -> Slicing:
    """Slices by length, (n,), in buckets with these edges; negative lengths are left out."""
    names = bucket_names(edges)
    return np.where(lengths >= 0, np.array(names)[np.searchsorted(edges, lengths)], ""), names


def has_oov_word(text: str, known: Container[str], lower_case: bool = True) -> bool:
    """Whether a text has a token that is not `known`; `lower_case` is the case policy."""
    return not all(is_known(text[start:end], known, lower_case) for start, end in tokenize(text))


def questions_with_oov_words(
    split: EvaluationSplit, known: Container[str], lower_case: bool = True
) -> BoolArray:
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
    scores = {f"dev/{name}_outside_glove": mean(answers[name][outside]) for name in ("em", "f1")}
    return {"dev/questions_outside_glove": float(outside.sum()), **scores}


def guarded_slices(split: EvaluationSplit, lexicon: Lexicon) -> dict[str, BoolArray]:
    """The slices that a promotion must not harm, as masks (n,); a question may be in several.

    They are: answerable and unanswerable questions (if any question is unanswerable), questions by
    question word, questions with a word outside the model's vocabulary, in the question or its
    answers, and those of feedback. The vocabulary also has frequent words without a vector.
    """
    kinds = {"unanswerable": ~split.answerable, "answerable": split.answerable}
    slices = kinds if split.v2 else {}
    words = np.array([question_word(question) for question in split.questions])
    slices |= {f"question word {word}": words == word for word in sorted(set(words))}
    unknown = questions_with_oov_words(split, lexicon.word_indices, lexicon.lower_case)
    feedback = np.array([question.startswith(FEEDBACK) for question in split.ids])
    return slices | {"unknown words": unknown} | ({"feedback": feedback} if feedback.any() else {})
