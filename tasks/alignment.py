"""Finds the tokens of the answer that a question is trained on, and tells how it went."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.squad import Answer, Question

Outcome = Literal["exact", "widened", "dropped", "impossible"]


@dataclass(frozen=True, slots=True)
class Alignment:
    """How a question's answer meets the tokens of its context: one line of the ledger.

    `gold` is the text of the training answer ("" without one); `start` and `end` are its first and
    last token, -1 where nothing can be trained on; `reason` is "" if the outcome is exact.
    """

    outcome: Outcome
    reason: str
    gold: str
    start: int = -1
    end: int = -1


def training_answer(answers: Sequence[Answer]) -> Answer:
    """The most frequent (text, start) of the annotators' answers, the first of them on ties."""
    votes = Counter((answer.text, answer.answer_start) for answer in answers)
    return max(answers, key=lambda answer: votes[answer.text, answer.answer_start])


def align(
    question: Question, context: str, starts: Sequence[int], ends: Sequence[int]
) -> Alignment:
    """Aligns a question's training answer with the tokens [starts, ends) of its context.

    White space around the answer is ignored. exact: the answer's borders are token borders.
    widened: it begins or ends inside a token, and the span takes the whole token. impossible:
    marked is_impossible; answers given all the same are not used. dropped: no answer though not
    marked, an answer of white space, or one that does not stand at its answer_start.
    """
    if question.is_impossible:
        unused = f", so its {len(question.answers)} answers are not used"
        reason = "marked is_impossible" + (unused if question.answers else "")
        return Alignment("impossible", reason, "")
    if not question.answers:
        return Alignment("dropped", "no answer is given, and it is not marked is_impossible", "")
    gold = training_answer(question.answers)
    fault = _fault(gold, context)
    if fault:
        return Alignment("dropped", fault, gold.text)
    return _span(gold, context, starts, ends)


def _span(gold: Answer, context: str, starts: Sequence[int], ends: Sequence[int]) -> Alignment:
    begin = gold.answer_start + len(gold.text) - len(gold.text.lstrip())
    stop = begin + len(gold.text.strip())
    first, last = bisect_right(ends, begin), bisect_left(starts, stop) - 1
    if first > last:
        return Alignment("dropped", "no token overlaps the answer", gold.text)
    inside = []
    if starts[first] < begin:
        inside.append(f"starts inside the token {context[starts[first] : ends[first]]!r}")
    if ends[last] > stop:
        inside.append(f"ends inside the token {context[starts[last] : ends[last]]!r}")
    outcome: Outcome = "widened" if inside else "exact"
    return Alignment(outcome, ", ".join(inside), gold.text, first, last)


def _fault(gold: Answer, context: str) -> str:
    """Why the answer can't be used, or "" if it stands where it says."""
    text, start = gold.text, gold.answer_start
    if not text.strip():
        return "the answer is empty"
    if start >= 0 and context.startswith(text, start):
        return ""
    if not 0 <= start < len(context):
        found = f"answer_start {start} lies outside the context of {len(context)} characters"
    else:
        found = f"{context[start : start + len(text)]!r} stands at {start}, not {text!r}"
    elsewhere = _nearest(text, start, context)
    return found + (f"; it stands at {elsewhere}" if elsewhere >= 0 else "; it stands nowhere")


def _nearest(text: str, start: int, context: str) -> int:
    places = [context.rfind(text, 0, max(start, 0) + len(text)), context.find(text, max(start, 0))]
    return min((p for p in places if p >= 0), key=lambda p: abs(p - start), default=-1)
