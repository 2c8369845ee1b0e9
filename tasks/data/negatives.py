"""Unanswerable questions made by rule from answerable ones.

A negative asks a question about another paragraph of its article, which is about the same topic and
contains none of its answers (Clark & Gardner 2018, section 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import contains
from typing import Any

import pyarrow as pa

from models.squad_metrics import normalize_answer
from tasks.data.ingested import Contexts, hash_uniform, normalized, with_columns

SIGN = "≠"  # the last character of a negative's id


class _Article:
    """The contexts of an article, of which the first is in row `start`."""

    def __init__(self, contexts: Contexts, start: int, texts: Sequence[str]) -> None:
        self._contexts, self._start = contexts, start
        self._searched = list(map(_forms_for_search, texts))
        self.end = start + len(texts)

    def other_context(self, own: int, answers: Sequence[str], turn: float) -> int | None:
        """The row of the first context that is kept, is not the question's own and has none of its
        answers; the search begins at the share `turn` (0 to 1) of the article."""
        first = self._start + int(turn * (self.end - self._start))
        forms = list(map(_forms_for_search, answers))
        suitable = (
            row
            for row in (*range(first, self.end), *range(self._start, first))
            if self._contexts.keep[row] and row != own
            if (searched := self._searched[row - self._start])[0]
            if not any(any(map(contains, searched, answer)) for answer in forms)
        )
        return next(suitable, None)


def _forms_for_search(text: str) -> tuple[str, str]:
    """A text as it is written, and as SQuAD compares answers, in whole words."""
    return normalized(text), f" {normalize_answer(text)} "


@dataclass(frozen=True)
class _Negative:
    row: int  # of its question, in the batch
    context: int


class NegativeSampler:
    """Makes negatives from a `share` (0 to 1) of a portion's answerable questions, batch by batch,
    in the order of the questions.

    One article is in memory at a time. What is made depends on seed, question id and article only.
    """

    def __init__(self, contexts: Contexts, share: float, seed: int) -> None:
        self._contexts, self._share, self._seed = contexts, share, seed
        self._articles = contexts.by_article()
        self._article = _Article(contexts, 0, [])

    def sample(self, questions: Any, ledger: Any) -> tuple[Any, Any]:
        """The negatives made from a batch of questions and its ledger rows, in the same schemas.

        Questions without a training answer are invalid, and have no negatives.
        """
        negatives = []
        columns = ("id", "context_id", "answers", "span_start")
        values = (questions.column(name).to_pylist() for name in columns)
        for row, (id, context, answers, span_start) in enumerate(zip(*values, strict=True)):
            if span_start < 0 or hash_uniform("negative", self._seed, id) >= self._share:
                continue
            self._move_to(context)
            turn = hash_uniform("place", self._seed, id)
            texts = [answer["text"] for answer in answers]
            other = self._article.other_context(context, texts, turn)
            if other is not None:
                negatives.append(_Negative(row, other))
        return _rows(negatives, questions, ledger)

    def _move_to(self, context: int) -> None:
        while context >= self._article.end:
            _, texts = next(self._articles)
            self._article = _Article(self._contexts, self._article.end, texts)


def _rows(negatives: Sequence[_Negative], questions: Any, ledger: Any) -> tuple[Any, Any]:
    """The questions and ledger rows of negatives, in the schemas of their questions."""
    rows = pa.array([negative.row for negative in negatives], pa.int64())
    questions, ledger = questions.take(rows), ledger.take(rows)
    count = len(negatives)
    ids = [id + SIGN for id in questions.column("id").to_pylist()]
    new_questions = {
        "id": ids,
        "context_id": [negative.context for negative in negatives],
        "answers": [[]] * count,
        "is_impossible": [True] * count,
        "span_start": [-1] * count,
        "span_end": [-1] * count,
    }
    new_ledger = {
        **{name: [None] * count for name in ledger.schema.names},
        "id": ids,
        "outcome": ["impossible"] * count,
        "reason": ["asked about another paragraph of its article"] * count,
        "answer_errors": [[]] * count,
        "span": [""] * count,
        "em": [1.0] * count,
        "f1": [1.0] * count,
    }
    return with_columns(questions, new_questions), with_columns(ledger, new_ledger)
