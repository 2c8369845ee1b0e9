"""Aligns the training answer of each question with context tokens, and records the outcome."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.data.answer_errors import MEANINGS, Fault, FaultKind, diagnose, stands
from tasks.data.schema import Answer, Question

Outcome = Literal["exact", "widened", "repaired", "dropped", "impossible"]


@dataclass(frozen=True, slots=True)
class Alignment:
    """The alignment of a question's answer with the tokens of its context: one row of the ledger.

    `gold` is the training answer as given, or None; `start` and `end` are its first and last token,
    or -1 if there is nothing to train on; `reason` is "" if the outcome is exact; `fault` is the
    kind of fault, and `repaired` is the answer that replaces `gold`.
    """

    outcome: Outcome
    reason: str
    gold: Answer | None = None
    start: int = -1
    end: int = -1
    fault: FaultKind | None = None
    repaired: Answer | None = None


def training_answer(answers: Sequence[Answer]) -> Answer:
    """The most frequent (text, start) of the annotators' answers; the first one on ties."""
    if len(answers) == 1:
        return answers[0]
    votes = Counter((answer.text, answer.answer_start) for answer in answers)
    return max(answers, key=lambda answer: votes[answer.text, answer.answer_start])


def repaired_answers(answers: Sequence[Answer], context: str) -> list[Answer]:
    """The answers; those with a fault that can be repaired are replaced by their repaired form."""
    return [a if stands(a, context) else diagnose(a, context).mended or a for a in answers]


def align(
    question: Question,
    context: str,
    starts: Sequence[int],
    ends: Sequence[int],
    repair: bool = False,
) -> Alignment:
    """Aligns a question's training answer with the tokens [starts, ends) of its context.

    The training answer is chosen among the answers that match the context at their answer_start.
    White space around it is ignored. The outcomes are:

    - exact: the answer begins and ends at token boundaries.
    - widened: it begins or ends inside a token, and the span includes the whole token.
    - impossible: the question is marked is_impossible; any answers it has are ignored.
    - dropped: the question is empty, has no answer though it is not marked is_impossible, or has no
      answer that matches its answer_start.
    - repaired: no answer matches its answer_start, but `repair` is set and `diagnose` finds the
      training answer in the context.
    """
    if question.is_impossible:
        unused = f", so its {len(question.answers)} answers are not used"
        return Alignment(
            "impossible", "marked is_impossible" + (unused if question.answers else "")
        )
    if not question.question.strip():
        return _dropped(Fault("empty-question", MEANINGS["empty-question"]))
    if not question.answers:
        return _dropped(Fault("no-answer", MEANINGS["no-answer"]))
    sound = [answer for answer in question.answers if stands(answer, context)]
    gold = training_answer(sound or question.answers)
    if sound:
        return _span(gold, context, starts, ends)
    fault = diagnose(gold, context)
    if fault.mended is None or not repair:
        return _dropped(fault, gold)
    span = _span(fault.mended, context, starts, ends)
    reason = ", ".join(filter(None, [f"{fault.reason}: repaired", span.reason]))
    return Alignment("repaired", reason, gold, span.start, span.end, fault.kind, fault.mended)


def _dropped(fault: Fault, gold: Answer | None = None) -> Alignment:
    return Alignment("dropped", fault.reason, gold, fault=fault.kind)


def _span(gold: Answer, context: str, starts: Sequence[int], ends: Sequence[int]) -> Alignment:
    begin = gold.answer_start + len(gold.text) - len(gold.text.lstrip())
    stop = begin + len(gold.text.strip())
    first, last = bisect_right(ends, begin), bisect_left(starts, stop) - 1
    inside = []
    if starts[first] < begin:
        inside.append(f"starts inside the token {context[starts[first] : ends[first]]!r}")
    if ends[last] > stop:
        inside.append(f"ends inside the token {context[starts[last] : ends[last]]!r}")
    outcome: Outcome = "widened" if inside else "exact"
    return Alignment(outcome, ", ".join(inside), gold, first, last)
