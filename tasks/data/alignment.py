"""Aligns the training answer of each question with context tokens, and records the outcome."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.data.answer_errors import (
    ERROR_DESCRIPTIONS,
    AnswerError,
    AnswerErrorKind,
    diagnose,
    matches_context,
)
from tasks.data.schema import Answer, InvalidQuestion, Question

AlignmentStatus = Literal["exact", "widened", "repaired", "dropped", "impossible"]


@dataclass(frozen=True, slots=True)
class Alignment:
    """The alignment of a question's answer with the tokens of its context: one row of the ledger.

    `gold` is the training answer as given, or None; `start` and `end` are its first and last token,
    or -1 if there is nothing to train on; `reason` is "" if the outcome is exact; `fault` is the
    kind of error, and `repaired` is the answer that replaces `gold`.
    """

    outcome: AlignmentStatus
    reason: str
    gold: Answer | None = None
    start: int = -1
    end: int = -1
    fault: AnswerErrorKind | None = None
    repaired: Answer | None = None


def training_answer(answers: Sequence[Answer]) -> Answer:
    """The most frequent (text, start) of the annotators' answers; the first one on ties."""
    if len(answers) == 1:
        return answers[0]
    votes = Counter((answer.text, answer.answer_start) for answer in answers)
    return max(answers, key=lambda answer: votes[answer.text, answer.answer_start])


def answer_errors(question: Question, context: str) -> list[tuple[Answer, AnswerError]]:
    """The answers that do not match the context at their answer_start, and what is wrong.

    Answers of a question that is marked is_impossible are ignored.
    """
    answers = [] if question.is_impossible else question.answers
    return [(a, diagnose(a, context)) for a in answers if not matches_context(a, context)]


def scored_answers(question: Question, context: str, repair: bool = False) -> list[Answer]:
    """The answers that predictions are scored against: those that match the context.

    With `repair`, answers are corrected where possible. If no answer matches, all of them but blank
    ones are scored against, because SQuAD scores texts. With a blank one, "no answer" would be
    right.
    """
    if question.is_impossible:
        return []
    corrections = {
        id(answer): error.correction if repair else None
        for answer, error in answer_errors(question, context)
    }
    answers = [corrections.get(id(answer), answer) for answer in question.answers]
    return [answer for answer in answers if answer] or [
        answer for answer in question.answers if answer.text.strip()
    ]


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
    - dropped: the question has an invalid field, is empty, has no answer though it is not marked
      is_impossible, or has no answer that matches its answer_start.
    - repaired: no answer matches its answer_start, but `repair` is set and `diagnose` finds the
      training answer in the context.
    """
    if isinstance(question, InvalidQuestion):
        return _dropped("invalid-field", question.reason)
    if question.is_impossible:
        ignored = f"; its answers ({len(question.answers)}) are ignored"
        return Alignment(
            "impossible", "marked is_impossible" + (ignored if question.answers else "")
        )
    if not question.question.strip():
        return _dropped("empty-question", ERROR_DESCRIPTIONS["empty-question"])
    if not question.answers:
        return _dropped("no-answer", ERROR_DESCRIPTIONS["no-answer"])
    matching = [answer for answer in question.answers if matches_context(answer, context)]
    gold = training_answer(matching or question.answers)
    if matching:
        return _span(gold, context, starts, ends)
    error = diagnose(gold, context)
    if error.correction is None or not repair:
        return _dropped(error.kind, error.reason, gold)
    span = _span(error.correction, context, starts, ends)
    reason = ", ".join(filter(None, [f"repaired ({error.reason})", span.reason]))
    return Alignment("repaired", reason, gold, span.start, span.end, error.kind, error.correction)


def _dropped(kind: AnswerErrorKind, reason: str, gold: Answer | None = None) -> Alignment:
    return Alignment("dropped", reason, gold, fault=kind)


def _span(gold: Answer, context: str, starts: Sequence[int], ends: Sequence[int]) -> Alignment:
    begin = gold.answer_start + len(gold.text) - len(gold.text.lstrip())
    stop = begin + len(gold.text.strip())
    first, last = bisect_right(ends, begin), bisect_left(starts, stop) - 1
    cut_tokens = []
    if starts[first] < begin:
        cut_tokens.append(f"starts inside the token {context[starts[first] : ends[first]]!r}")
    if ends[last] > stop:
        cut_tokens.append(f"ends inside the token {context[starts[last] : ends[last]]!r}")
    outcome: AlignmentStatus = "widened" if cut_tokens else "exact"
    return Alignment(outcome, ", ".join(cut_tokens), gold, first, last)
