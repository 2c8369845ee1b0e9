"""The rows of consecutive entries of a file: tokenised, aligned and scored."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from models.scripts import is_mostly_latin
from models.squad_metrics import score_questions
from tasks.data.alignment import align, answer_errors, scored_answers
from tasks.data.entries import Entry
from tasks.data.ingested import TABLES
from tasks.data.readers import group_entries
from tasks.data.schema import Answer, Article, Question
from tasks.text.tokenizer import tokenize

Row = dict[str, Any]
# The article of a row (see `Entry.group`), and its context.
Place = tuple[tuple[str, str], str]


class ShardTables(NamedTuple):
    """The rows of consecutive entries, with articles and contexts numbered from 0."""

    tables: dict[str, Any]  # a record batch for each of `TABLES`
    articles: int
    has_rows: bool  # whether some entries are questions, and not whole articles
    # Those of the first and the last entry, which the entries before or after may share; None for
    # an entry that is a whole article.
    first: Place | None
    last: Place | None


def shard_tables(entries: Iterable[Entry], repair: bool) -> ShardTables:
    """The rows of consecutive entries.

    With `repair`, an answer that does not match its answer_start is replaced by its nearest match
    in the context.
    """
    entries = list(entries)
    builder = _Builder(repair)
    for article in group_entries(entries):
        builder.add(article)
    return ShardTables(
        {name: pa.RecordBatch.from_pylist(builder.rows[name], TABLES[name]) for name in TABLES},
        builder.articles,
        any(entry.is_row for entry in entries),
        _place(entries[0]) if entries else None,
        _place(entries[-1]) if entries else None,
    )


def _place(entry: Entry) -> Place | None:
    return entry.group and (entry.group, entry.article.paragraphs[0].context)


class _Builder:
    def __init__(self, repair: bool) -> None:
        self._repair = repair
        self.rows: dict[str, list[Row]] = {name: [] for name in TABLES}
        self.articles = 0

    def add(self, article: Article) -> None:
        """Add the row of each context, and the two rows of each question about it."""
        for paragraph in article.paragraphs:
            context = {
                "context_id": len(self.rows["contexts"]),
                "article": self.articles,
                "title": article.title,
                "text": paragraph.context,
                **_token_offsets(paragraph.context),
            }
            self.rows["contexts"].append(context)
            by_units = not is_mostly_latin(paragraph.context)
            for question in paragraph.qas:
                self._add_question(question, context, by_units)
        self.articles += 1

    def _add_question(self, question: Question, context: Row, by_units: bool) -> None:
        text, starts, ends = context["text"], context["token_starts"], context["token_ends"]
        alignment = align(question, text, starts, ends, self._repair)
        first, last = alignment.start, alignment.end
        span = text[starts[first] : ends[last]] if first >= 0 else ""
        answers = scored_answers(question, text, self._repair)
        errors = answer_errors(question, text)
        texts = [answer.text for answer in answers]
        (score,) = score_questions(
            [span], [texts], [not question.is_impossible], v2=True, by_units=[by_units]
        )
        question_row = {
            "id": question.id,
            "context_id": context["context_id"],
            "question": question.question,
            **_token_offsets(question.question),
            "answers": [(answer.text, answer.answer_start) for answer in answers],
            "is_impossible": question.is_impossible,
            "span_start": first,
            "span_end": last,
        }
        ledger_row = {
            "id": question.id,
            "outcome": alignment.outcome,
            "fault": alignment.fault,
            "reason": alignment.reason,
            **_answer_columns("gold", alignment.gold),
            **_answer_columns("repaired", alignment.repaired),
            "answer_errors": [
                {
                    "fault": error.kind,
                    "reason": error.reason,
                    **_answer_columns("gold", answer),
                    **_answer_columns("repaired", error.correction if self._repair else None),
                }
                for answer, error in errors
            ],
            "span": span,
            "em": score.em,
            "f1": score.f1,
        }
        self.rows["questions"].append(question_row)
        self.rows["alignment"].append(ledger_row)


def _token_offsets(text: str) -> dict[str, list[int]]:
    tokens = tokenize(text)
    return {
        "token_starts": [start for start, _ in tokens],
        "token_ends": [end for _, end in tokens],
    }


def _answer_columns(name: str, answer: Answer | None) -> Row:
    return {name: answer and answer.text, f"{name}_start": answer and answer.answer_start}
