"""Random answers in their sentences: a person sees at a glance whether offsets are right."""

import heapq
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.data.ingested import batches, hash_uniform
from tasks.text.control_characters import without_control_characters

AROUND = 80  # characters of a sentence that are shown before an answer, and after it
_SENTENCE_END = re.compile(r"[.!?]\s+|\n")


class AnswerInSentence(NamedTuple):
    """A question, and its training answer between the rest of its sentence."""

    question: str
    before: str
    answer: str
    after: str


def sample_answers(folders: Sequence[Path], count: int) -> list[AnswerInSentence]:
    """Answers of ingested files, drawn by their ids, so that they stay the same."""
    columns = ["id", "question", "context_id", "answers", "span_start"]
    drawn = heapq.nsmallest(
        count,
        (
            (hash_uniform("sample", 0, row["id"]), number, folder, row)
            for number, folder in enumerate(folders)
            for batch in batches(folder / "questions.parquet", columns)
            for row in batch.filter(pc.field("span_start") >= 0).to_pylist()
        ),
        key=lambda drawn: drawn[:2],
    )
    return [_in_sentence(folder, row) for _, _, folder, row in drawn]


def _in_sentence(folder: Path, row: dict[str, Any]) -> AnswerInSentence:
    chosen = pc.field("context_id") == row["context_id"]
    (context,) = pq.read_table(folder / "contexts.parquet", columns=["text"], filters=chosen)[
        "text"
    ]
    text, answer = str(context), row["answers"][0]
    start, end = answer["start"], answer["start"] + len(answer["text"])
    before = _SENTENCE_END.split(text[max(start - AROUND, 0) : start])[-1]
    after = text[end : end + AROUND]
    if (mark := _SENTENCE_END.search(after)) is not None:
        after = after[: mark.end()].rstrip()
    shown = (row["question"], before, answer["text"], after)
    return AnswerInSentence(*map(without_control_characters, shown))
