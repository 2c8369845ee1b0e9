"""Writes articles as the Parquet files of an ingested split, with a ledger of every answer."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from infra.errors import UserError
from models.squad_metrics import QuestionScore
from tasks.data.alignment import Alignment, align, repaired_answers
from tasks.data.ingest_stats import IngestStats
from tasks.data.readers import read_articles
from tasks.data.schema import Answer, Article, Question
from tasks.text.tokenizer import tokenize

Offsets = list[tuple[int, int]]
Schema = dict[str, pa.DataType]

_OFFSETS: Schema = {"token_starts": pa.list_(pa.int32()), "token_ends": pa.list_(pa.int32())}
_CONTEXTS: Schema = {
    "context_id": pa.int32(),
    "article": pa.int32(),
    "title": pa.string(),
    "text": pa.string(),
    **_OFFSETS,
}
_ANSWER = pa.struct([("text", pa.string()), ("start", pa.int32())])
_QUESTIONS: Schema = {
    "id": pa.string(),
    "context_id": pa.int32(),
    "question": pa.string(),
    **_OFFSETS,
    "answers": pa.list_(_ANSWER),
    "is_impossible": pa.bool_(),
    "span_start": pa.int32(),
    "span_end": pa.int32(),
}
_LEDGER: Schema = {
    "id": pa.string(),
    "outcome": pa.string(),
    "fault": pa.string(),  # a `AnswerErrorKind`, or null
    "reason": pa.string(),
    "gold": pa.string(),
    "gold_start": pa.int32(),
    "repaired": pa.string(),  # null unless the outcome is "repaired"; so is repaired_start
    "repaired_start": pa.int32(),
    "span": pa.string(),
    "em": pa.float32(),
    "f1": pa.float32(),
}

_FILES = {
    "contexts.parquet": _CONTEXTS,
    "questions.parquet": _QUESTIONS,
    "alignment.parquet": _LEDGER,
}

BATCH_CHARACTERS = 1 << 20
BATCH_QUESTIONS = 1 << 13
"""A row group is written as soon as it reaches one of these two limits."""


class _Context(NamedTuple):
    number: int
    article: int
    title: str
    text: str
    tokens: Offsets

    @property
    def characters(self) -> int:
        return len(self.text)


class _Row(NamedTuple):
    context: _Context
    question: Question
    answers: list[Answer]
    tokens: Offsets
    alignment: Alignment

    @property
    def characters(self) -> int:
        return len(self.question.question) + sum(len(answer.text) for answer in self.answers)

    @property
    def span(self) -> str:
        """The text of the aligned tokens, or "" if none are aligned."""
        first, last = self.alignment.start, self.alignment.end
        tokens = self.context.tokens
        return self.context.text[tokens[first][0] : tokens[last][1]] if first >= 0 else ""


class _Batch(NamedTuple):
    contexts: list[_Context]
    rows: list[_Row]


def ingest_file(
    out: Path, file: Path, repair: bool = False, max_rejected: float = 1.0
) -> dict[str, int | float]:
    """Reads a file of articles and writes its three tables into the folder `out`.

    Raises UserError, which names the file, if the file is malformed or `ingest_articles` raises.
    """
    try:
        return ingest_articles(read_articles(file), out, repair, max_rejected)
    except UserError as error:
        if str(file) in str(error):
            raise
        raise UserError(f"{file}: {error}") from error


def ingest_articles(
    articles: Iterable[Article], out: Path, repair: bool = False, max_rejected: float = 1.0
) -> dict[str, int | float]:
    """Writes contexts.parquet, questions.parquet and alignment.parquet into the folder `out`.

    Every paragraph is one context and every question one row, in the order of the articles. Equal
    articles produce equal bytes. At most a few thousand questions are in memory at a time. With
    `repair`, an answer that does not match its answer_start is replaced by its nearest match in
    the context.

    Returns counts of articles, contexts, questions, tokens and outcomes, and the oracle EM
    and F1 (0..100), which score the texts of the aligned spans against the answers. They follow the
    v2.0 rule if any question has no answers, else the v1.1 rule. The scores in the ledger always
    follow the v2.0 rule; the two differ only if an answer normalises to nothing.

    Raises UserError if there are no questions, if two questions share an id, or if the share of
    dropped questions exceeds `max_rejected`.
    """
    stats = IngestStats()
    with ExitStack() as open_files:
        writers = [
            open_files.enter_context(
                pq.ParquetWriter(out / name, pa.schema(schema), compression="zstd")
            )
            for name, schema in _FILES.items()
        ]
        for batch in _batches(_contexts_and_rows(articles, stats, repair)):
            for writer, table in zip(writers, _tables(batch, stats), strict=True):
                if table.num_rows:
                    writer.write_table(table)
    stats.refuse_invalid(out, max_rejected)
    return stats.facts()


def _batches(items: Iterable[_Context | _Row]) -> Iterator[_Batch]:
    batch, characters = _Batch([], []), 0
    for item in items:
        if isinstance(item, _Context):
            batch.contexts.append(item)
        else:
            batch.rows.append(item)
        characters += item.characters
        if characters >= BATCH_CHARACTERS or len(batch.rows) >= BATCH_QUESTIONS:
            yield batch
            batch, characters = _Batch([], []), 0
    yield batch


def _contexts_and_rows(
    articles: Iterable[Article], stats: IngestStats, repair: bool
) -> Iterator[_Context | _Row]:
    """Yield each context, followed by the questions about it."""
    contexts = count()
    for number, article in enumerate(articles):
        stats.articles += 1
        for paragraph in article.paragraphs:
            text = paragraph.context
            context = _Context(next(contexts), number, article.title, text, tokenize(text))
            yield context
            starts = [start for start, _ in context.tokens]
            ends = [end for _, end in context.tokens]
            for question in paragraph.qas:
                alignment = align(question, text, starts, ends, repair)
                answers = [] if question.is_impossible else question.answers
                if repair:
                    answers = repaired_answers(answers, text)
                tokens = tokenize(question.question)
                yield _Row(context, question, answers, tokens, alignment)


def _tables(batch: _Batch, stats: IngestStats) -> list[pa.Table]:
    contexts, rows = batch
    stats.contexts += len(contexts)
    stats.context_tokens += sum(len(context.tokens) for context in contexts)
    stats.question_tokens += sum(len(row.tokens) for row in rows)
    scores = [
        stats.add(row.question.id, row.alignment, row.span, [a.text for a in row.answers])
        for row in rows
    ]
    columns = [_context_columns(contexts), _question_columns(rows), _ledger_columns(rows, scores)]
    return [
        pa.table(values, pa.schema(schema))
        for values, schema in zip(columns, _FILES.values(), strict=True)
    ]


def _context_columns(contexts: Sequence[_Context]) -> dict[str, Any]:
    return {
        "context_id": [context.number for context in contexts],
        "article": [context.article for context in contexts],
        "title": [context.title for context in contexts],
        "text": [context.text for context in contexts],
        **_offset_columns([context.tokens for context in contexts]),
    }


def _question_columns(rows: Sequence[_Row]) -> dict[str, Any]:
    return {
        "id": [row.question.id for row in rows],
        "context_id": [row.context.number for row in rows],
        "question": [row.question.question for row in rows],
        **_offset_columns([row.tokens for row in rows]),
        "answers": [[(answer.text, answer.answer_start) for answer in row.answers] for row in rows],
        "is_impossible": [row.question.is_impossible for row in rows],
        "span_start": [row.alignment.start for row in rows],
        "span_end": [row.alignment.end for row in rows],
    }


def _ledger_columns(rows: Sequence[_Row], scores: Sequence[QuestionScore]) -> dict[str, Any]:
    golds = [row.alignment.gold for row in rows]
    repaired = [row.alignment.repaired for row in rows]
    return {
        "id": [row.question.id for row in rows],
        "outcome": [row.alignment.outcome for row in rows],
        "fault": [row.alignment.fault for row in rows],
        "reason": [row.alignment.reason for row in rows],
        **_answer_columns("gold", golds),
        **_answer_columns("repaired", repaired),
        "span": [row.span for row in rows],
        "em": [score.em for score in scores],
        "f1": [score.f1 for score in scores],
    }


def _answer_columns(name: str, answers: Sequence[Answer | None]) -> dict[str, Any]:
    return {
        name: [answer and answer.text for answer in answers],
        f"{name}_start": [answer and answer.answer_start for answer in answers],
    }


def _offset_columns(tokens: Sequence[Offsets]) -> dict[str, Any]:
    rows = pa.array(np.cumsum([0, *map(len, tokens)]), pa.int32())
    flat = np.fromiter(chain.from_iterable(chain.from_iterable(tokens)), dtype=np.int32)
    return {
        name: pa.ListArray.from_arrays(rows, pa.array(np.ascontiguousarray(flat[side::2])))
        for side, name in enumerate(_OFFSETS)
    }
