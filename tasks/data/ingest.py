"""Writes articles as the Parquet files of an ingested split, with a ledger of every answer."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from infra.errors import UserError
from models.squad_metrics import QuestionScore, normalize_answer, score_questions
from tasks.data.alignment import AlignmentStatus, align, answer_errors, scored_answers
from tasks.data.answer_errors import ERROR_DESCRIPTIONS
from tasks.data.ingested import TABLES, refuse_repeated_ids, split_facts, table_writers
from tasks.data.readers import read_articles
from tasks.data.schema import Answer, Article, Question
from tasks.text.tokenizer import tokenize

Row = dict[str, Any]
# Rows of several tables, by the table's name.
Rows = dict[str, Row]

BATCH_CHARACTERS = 1 << 20
# A row group is written as soon as it reaches one of these two limits.
BATCH_QUESTIONS = 1 << 13


class IngestStats:
    """Counts of questions by outcome and error, and sums of their oracle scores."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        # Whether the v2.0 rule applies is known only at the end, so both rules are summed.
        self._sums = {v2: {"em": 0.0, "f1": 0.0} for v2 in (True, False)}
        self._v2 = False

    def add(self, outcome: AlignmentStatus, span: str, golds: Sequence[str]) -> QuestionScore:
        """Count a question, and return the score of its span's text by the v2.0 rule."""
        self.counts["questions"] += 1
        self.counts[outcome] += 1
        (score,) = score_questions([span], [golds], v2=True)
        # The rules differ only if an answer normalises to nothing.
        same = all(map(normalize_answer, golds))
        (v1_score,) = [score] if same else score_questions([span], [golds], v2=False)
        for v2, rule_score in ((True, score), (False, v1_score)):
            self._sums[v2]["em"] += rule_score.em
            self._sums[v2]["f1"] += rule_score.f1
        self._v2 |= not golds
        return score

    def refuse_invalid(self, folder: Path, max_rejected: float) -> None:
        """Raises UserError if there are no questions, or if too many were dropped.

        The message takes the most common error, and an example of it, from the ledger in `folder`.
        """
        questions, dropped = self.counts["questions"], self.counts["dropped"]
        if not questions:
            raise UserError("no questions found. Add at least one question to the file.")
        if dropped > max_rejected * questions:
            ledger: Any = pq.read_table(
                folder / "alignment.parquet",
                columns=["id", "fault", "reason"],
                filters=[("outcome", "=", "dropped")],
            ).to_pylist()
            kind, count = Counter(row["fault"] for row in ledger).most_common(1)[0]
            example = next(row for row in ledger if row["fault"] == kind)
            raise UserError(
                f"{dropped:,} of {questions:,} questions ({dropped / questions:.1%}) can't be "
                f"trained on, more than the limit of {max_rejected:.1%}. Most common error "
                f"({count:,}): {ERROR_DESCRIPTIONS[kind]}, e.g. question "
                f'"{example["id"]}" ({example["reason"]}). Fix the file, repair such answers '
                "(--data.repair), or raise the limit (--data.max-rejected)."
            )

    def facts(self) -> dict[str, int | float]:
        """The `split_facts`, by the v2.0 rule if any question has no answers, else by v1.1."""
        return split_facts(self.counts, self._sums[self._v2])


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
    with table_writers(out, TABLES) as writers:
        for batch in _batches(_sized_rows(articles, stats, repair)):
            for name, rows in batch.items():
                if rows:
                    writers[name].write_table(pa.Table.from_pylist(rows, TABLES[name]))
    refuse_repeated_ids(out)
    stats.refuse_invalid(out, max_rejected)
    return stats.facts()


def _batches(sized_rows: Iterable[tuple[int, Rows]]) -> Iterator[dict[str, list[Row]]]:
    batch: dict[str, list[Row]] = {name: [] for name in TABLES}
    characters = 0
    for size, rows in sized_rows:
        for name, row in rows.items():
            batch[name].append(row)
        characters += size
        if characters >= BATCH_CHARACTERS or len(batch["questions"]) >= BATCH_QUESTIONS:
            yield batch
            batch, characters = {name: [] for name in TABLES}, 0
    yield batch


def _sized_rows(
    articles: Iterable[Article], stats: IngestStats, repair: bool
) -> Iterator[tuple[int, Rows]]:
    """Yield the row of each context, then the two rows of each question about it.

    The number of characters in the rows precedes them. The rows are counted in `stats`.
    """
    for number, article in enumerate(articles):
        stats.counts["articles"] += 1
        for paragraph in article.paragraphs:
            context: dict[str, Any] = {
                "context_id": stats.counts["contexts"],
                "article": number,
                "title": article.title,
                "text": paragraph.context,
                **_token_offsets(paragraph.context),
            }
            stats.counts["contexts"] += 1
            stats.counts["context_tokens"] += len(context["token_starts"])
            yield len(paragraph.context), {"contexts": context}
            for question in paragraph.qas:
                yield _question_rows(question, context, stats, repair)


def _question_rows(
    question: Question, context: Row, stats: IngestStats, repair: bool
) -> tuple[int, Rows]:
    text, starts, ends = context["text"], context["token_starts"], context["token_ends"]
    alignment = align(question, text, starts, ends, repair)
    first, last = alignment.start, alignment.end
    span = text[starts[first] : ends[last]] if first >= 0 else ""
    answers = scored_answers(question, text, repair)
    errors = answer_errors(question, text)
    stats.counts["invalid_answers"] += len(errors)
    texts = [answer.text for answer in answers]
    score = stats.add(alignment.outcome, span, texts)
    question_row: Row = {
        "id": question.id,
        "context_id": context["context_id"],
        "question": question.question,
        **_token_offsets(question.question),
        "answers": [(answer.text, answer.answer_start) for answer in answers],
        "is_impossible": question.is_impossible,
        "span_start": first,
        "span_end": last,
    }
    stats.counts["question_tokens"] += len(question_row["token_starts"])
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
                **_answer_columns("repaired", error.correction if repair else None),
            }
            for answer, error in errors
        ],
        "span": span,
        "em": score.em,
        "f1": score.f1,
    }
    return len(question.question) + sum(map(len, texts)), {
        "questions": question_row,
        "alignment": ledger_row,
    }


def _token_offsets(text: str) -> dict[str, list[int]]:
    tokens = tokenize(text)
    return {
        "token_starts": [start for start, _ in tokens],
        "token_ends": [end for _, end in tokens],
    }


def _answer_columns(name: str, answer: Answer | None) -> Row:
    return {name: answer and answer.text, f"{name}_start": answer and answer.answer_start}
