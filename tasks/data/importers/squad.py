"""SQuAD's JSON and its relatives, and rows of questions with their contexts."""

import ast
import json
from contextlib import suppress
from typing import Any

from tasks.data.importers.records import Counts, Record, Records, questions_of, span

# Haystack's annotation tool: the annotator has said that there is no answer.
NOT_GIVEN = "NOT_GIVEN"
# QuAC: the last word of each context, which is the answer to questions without one.
CANNOT_ANSWER = "CANNOTANSWER"
MARKERS = (b'"answer_category"', f'"{CANNOT_ANSWER}"'.encode())


def articles_or_rows(record: Record, counts: Counts) -> Records:
    """An article, or a row."""
    if "paragraphs" not in record:
        yield _row(record, counts)
        return
    for paragraph, question in questions_of(record):
        _mark_unanswerable(question, counts)
        context = paragraph.get("context")
        if isinstance(context, str) and context.endswith(CANNOT_ANSWER):
            paragraph["context"] = context.removesuffix(CANNOT_ANSWER).rstrip()
    yield record


def _mark_unanswerable(question: Record, counts: Counts) -> None:
    """Set is_impossible if a marker in place of an answer says so."""
    answers = question.get("answers")
    if isinstance(answers, list) and any(map(_is_marker, answers)):
        given = [answer for answer in answers if not _is_marker(answer)]
        question |= {"answers": given, "is_impossible": not given}
        counts["without answer"] += not given


def _is_marker(answer: Any) -> bool:
    return isinstance(answer, dict) and (
        answer.get("answer_category") == NOT_GIVEN or answer.get("text") == CANNOT_ANSWER
    )


def _row(record: Record, counts: Counts) -> Record:
    """A row whose answers may be two lists, one text, or both as text in a table's cell."""
    if "answers" not in record and "answer" in record:
        text, start = record["answer"], record.get("answer_start")
        if text and start in (None, ""):
            start = str(record.get("context")).find(str(text))
            counts["answers without a start (the first occurrence counts)"] += 1
        record["answers"] = [{"text": text, "answer_start": start}] if text else []
    if "answers" in record:
        record["answers"] = _answer_list(_unpacked(record["answers"]))
    return record


def _unpacked(answers: Any) -> Any:
    """Answers that a table has as JSON, or as Python shows them."""
    if isinstance(answers, str):
        for parse in (json.loads, ast.literal_eval):
            with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                return parse(answers)
    return answers


def _answer_list(answers: Any) -> Any:
    """Answers as a list of objects; an object of two equally long lists, or of one list of texts
    without their starts, is converted."""
    match answers:
        case {"text": [*texts], "answer_start": [*starts]} if len(texts) == len(starts):
            return [{"text": t, "answer_start": s} for t, s in zip(texts, starts, strict=True)]
        case {"text": [*texts]} if answers.get("answer_start") is None:
            return [{"text": text} for text in texts]
    return answers


def context_with_questions(record: Record, counts: Counts) -> Records:
    """simpletransformers: an article of one context."""
    yield from articles_or_rows({"paragraphs": [record]}, counts)


def mrqa(record: Record, counts: Counts) -> Records:
    """MRQA 2019: an article of one context, after a header; ends are inclusive."""
    if "header" in record:
        return
    questions = [
        {
            "id": question.get("qid") or question.get("id"),
            "question": question["question"],
            "answers": [
                span(start, end + 1, found.get("text"))
                for found in question.get("detected_answers", ())
                for start, end in found["char_spans"]
            ],
        }
        for question in record["qas"]
    ]
    yield {"paragraphs": [{"context": record["context"], "qas": questions}]}
