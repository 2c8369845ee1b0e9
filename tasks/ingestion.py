"""Turns articles into the Parquet files of an ingested split, with a ledger of every answer."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from models.metrics import QuestionScore, mean_scores, score_questions
from tasks.alignment import Alignment, align
from tasks.errors import UserError
from tasks.squad import Answer, Article, Question, read_articles, refuse_repeated_ids
from tasks.tokenizer import tokenize

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
    "reason": pa.string(),
    "gold": pa.string(),
    "span": pa.string(),
    "em": pa.float32(),
    "f1": pa.float32(),
}


class _Context(NamedTuple):
    article: int
    title: str
    text: str
    tokens: Offsets


class _Row(NamedTuple):
    context: int
    question: Question
    tokens: Offsets
    alignment: Alignment

    @property
    def answers(self) -> list[Answer]:
        return [] if self.question.is_impossible else self.question.answers


def ingest_file(out: Path, file: Path) -> dict[str, int | float]:
    """Reads a file of articles and writes its three tables into the folder `out`.

    Raises UserError if the file is broken, or as `ingest_articles` does, naming the file.
    """
    try:
        return ingest_articles(read_articles(file), out)
    except UserError as error:
        if str(file) in str(error):
            raise
        raise UserError(f"{file}: {error}") from error


def ingest_articles(articles: Iterable[Article], out: Path) -> dict[str, int | float]:
    """Writes contexts.parquet, questions.parquet and alignment.parquet into the folder `out`.

    Every paragraph is one context and every question one row, in the order of the articles; equal
    articles give equal bytes. Returns counts of articles, contexts, questions, tokens and outcomes,
    and the oracle EM and F1 (0..100): the aligned spans' own texts scored against the answers, by
    the v2.0 rule as soon as a question is without answers.

    Raises UserError if there is no question, or if two questions share an id.
    """
    articles = list(articles)
    refuse_repeated_ids(articles)
    contexts, rows = _align_all(articles)
    if not rows:
        raise UserError("the data hold no question; add at least one to a paragraph's qas.")
    spans = [_span_text(contexts[row.context], row.alignment) for row in rows]
    golds = [[answer.text for answer in row.answers] for row in rows]
    oracle = score_questions(spans, golds, v2=not all(golds))
    pq.write_table(_context_table(contexts), out / "contexts.parquet", compression="zstd")
    pq.write_table(_question_table(rows), out / "questions.parquet", compression="zstd")
    pq.write_table(
        _ledger_table(rows, spans, oracle), out / "alignment.parquet", compression="zstd"
    )
    return _facts(articles, contexts, rows, oracle)


def _align_all(articles: Sequence[Article]) -> tuple[list[_Context], list[_Row]]:
    contexts: list[_Context] = []
    rows: list[_Row] = []
    for number, article in enumerate(articles):
        for paragraph in article.paragraphs:
            text = paragraph.context
            tokens = tokenize(text)
            starts, ends = [start for start, _ in tokens], [end for _, end in tokens]
            rows.extend(
                _Row(
                    len(contexts),
                    question,
                    tokenize(question.question),
                    align(question, text, starts, ends),
                )
                for question in paragraph.qas
            )
            contexts.append(_Context(number, article.title, text, tokens))
    return contexts, rows


def _span_text(context: _Context, alignment: Alignment) -> str:
    if alignment.start < 0:
        return ""
    return context.text[context.tokens[alignment.start][0] : context.tokens[alignment.end][1]]


def _context_table(contexts: Sequence[_Context]) -> pa.Table:
    columns: dict[str, Sequence[object]] = {
        "context_id": range(len(contexts)),
        "article": [context.article for context in contexts],
        "title": [context.title for context in contexts],
        "text": [context.text for context in contexts],
        **_offset_columns([context.tokens for context in contexts]),
    }
    return pa.table(columns, pa.schema(_CONTEXTS))


def _question_table(rows: Sequence[_Row]) -> pa.Table:
    columns: dict[str, Sequence[object]] = {
        "id": [row.question.id for row in rows],
        "context_id": [row.context for row in rows],
        "question": [row.question.question for row in rows],
        **_offset_columns([row.tokens for row in rows]),
        "answers": [[(answer.text, answer.answer_start) for answer in row.answers] for row in rows],
        "is_impossible": [row.question.is_impossible for row in rows],
        "span_start": [row.alignment.start for row in rows],
        "span_end": [row.alignment.end for row in rows],
    }
    return pa.table(columns, pa.schema(_QUESTIONS))


def _ledger_table(
    rows: Sequence[_Row], spans: Sequence[str], oracle: Sequence[QuestionScore]
) -> pa.Table:
    columns: dict[str, Sequence[object]] = {
        "id": [row.question.id for row in rows],
        "outcome": [row.alignment.outcome for row in rows],
        "reason": [row.alignment.reason for row in rows],
        "gold": [row.alignment.gold for row in rows],
        "span": spans,
        "em": [score.em for score in oracle],
        "f1": [score.f1 for score in oracle],
    }
    return pa.table(columns, pa.schema(_LEDGER))


def _offset_columns(tokens: Sequence[Offsets]) -> dict[str, list[list[int]]]:
    return {
        "token_starts": [[start for start, _ in row] for row in tokens],
        "token_ends": [[end for _, end in row] for row in tokens],
    }


def _facts(
    articles: Sequence[Article],
    contexts: Sequence[_Context],
    rows: Sequence[_Row],
    oracle: Sequence[QuestionScore],
) -> dict[str, int | float]:
    outcomes = Counter(row.alignment.outcome for row in rows)
    scores = mean_scores(oracle)
    return {
        "articles": len(articles),
        "contexts": len(contexts),
        "questions": len(rows),
        "answerable": len(rows) - outcomes["impossible"],
        "impossible": outcomes["impossible"],
        "exact": outcomes["exact"],
        "widened": outcomes["widened"],
        "dropped": outcomes["dropped"],
        "oracle_em": scores.em,
        "oracle_f1": scores.f1,
        "context_tokens": sum(len(context.tokens) for context in contexts),
        "question_tokens": sum(len(row.tokens) for row in rows),
    }
