"""What answers are worth that need no reading: the floor that a champion must exceed."""

import re
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from models.arrays import FloatArray, IntArray
from models.squad_metrics import QuestionScore
from tasks.evaluation.evaluate import EvaluationSplit, character_spans

NO_ANSWER, FIRST_SENTENCE = 'always "no answer"', "the first sentence's best span"
# The spans of a sentence's tokens from which the best one is chosen.
LATEST_START, LONGEST = 20, 10
_SENTENCE_END = re.compile(r"[.!?؟।](?=\s)|[。！？]")


def floors(split: EvaluationSplit) -> Mapping[str, Sequence[QuestionScore]]:
    """The scores of each question, (n,), for two answers that ignore it, by the answer's name.

    One is no answer. The other is a span of the context's first sentence, at the same tokens of
    each; of all such spans, it is the one with the highest mean F1 in tokens on this split.
    """
    answers = {NO_ANSWER: [""] * len(split), FIRST_SENTENCE: _best_spans(split)}
    return {name: split.score(texts) for name, texts in answers.items()}


def floor_f1(split: EvaluationSplit) -> dict[str, FloatArray]:
    """The F1 (0 to 1) of each question, (n,), for each of the `floors`."""
    return {
        name: np.array([score.f1 for score in scores]) for name, scores in floors(split).items()
    }


def _best_spans(split: EvaluationSplit) -> list[str]:
    """The text of the best span for each question, "" if its context has no tokens."""
    ends = map(_end_of_first_sentence, split.contexts)
    tokens = np.split(split.token_starts, split.first_token[1:-1])
    counts = [np.searchsorted(own, end) for own, end in zip(tokens, ends, strict=True)]
    last = np.array(counts)[split.context_of] - 1
    spans = [
        (np.minimum(start, last), np.minimum(start + length - 1, last))
        for start, length in product(range(LATEST_START), range(1, LONGEST + 1))
    ]
    best = max(spans, key=lambda span: _sum_of_token_f1(split, *span))
    characters = np.transpose(character_spans(split, *best)).tolist()
    return [split.context(row)[start:end] for row, (start, end) in enumerate(characters)]


def _end_of_first_sentence(text: str) -> int:
    match = _SENTENCE_END.search(text)
    return match.end() if match else len(text)


def _sum_of_token_f1(split: EvaluationSplit, start: IntArray, end: IntArray) -> float:
    """The sum of the F1 of token spans, (n,) each, against those of the training answers."""
    shared = np.minimum(end, split.span_end) - np.maximum(start, split.span_start) + 1
    lengths = (end - start + 1) + (split.span_end - split.span_start + 1)
    return float(np.sum(2 * np.maximum(shared, 0) / lengths, where=split.span_start >= 0))
