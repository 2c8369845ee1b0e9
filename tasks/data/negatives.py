"""Unanswerable questions made by rule from answerable ones.

A negative asks a question about another paragraph of its article, which is about the same topic and
contains none of its answers (Clark & Gardner 2018, section 3).
"""

from collections.abc import Mapping, Sequence
from operator import contains
from typing import Any

import pyarrow as pa

from models.squad_metrics import normalize_answer
from tasks.data.ingested import Contexts, hash_uniform, normalized, with_columns

SIGN = "≠"  # the last character of a negative's id


class NegativeSampler:
    """Makes negatives from a `share` (0 to 1) of a portion's answerable questions, batch by batch,
    in the order of the questions.

    One article is in memory at a time. What is made depends on seed, question id and article only.
    """

    def __init__(self, contexts: Contexts, share: float, seed: int) -> None:
        self._contexts, self._share, self._seed = contexts, share, seed
        self._articles = contexts.by_article()
        self._start = 0  # the row of the first context of the article in memory
        self._searched: list[tuple[str, str]] = []  # its contexts

    def sample(self, questions: Any, ledger: Any) -> tuple[Any, Any]:
        """The negatives made from a batch of questions and its ledger rows, in the same schemas.

        Questions without a training answer are invalid, and have no negatives.
        """
        contexts = {}  # of the negatives, by the row of their question
        columns = ("id", "context_id", "answers", "span_start")
        values = (questions.column(name).to_pylist() for name in columns)
        for row, (id, context, answers, span_start) in enumerate(zip(*values, strict=True)):
            if span_start < 0 or hash_uniform("negative", self._seed, id) >= self._share:
                continue
            turn = hash_uniform("place", self._seed, id)
            other = self._other_context(context, [answer["text"] for answer in answers], turn)
            if other is not None:
                contexts[row] = other
        return _rows(contexts, questions, ledger)

    def _other_context(self, own: int, answers: Sequence[str], turn: float) -> int | None:
        """The row of the first context that is kept, is not the question's own and has none of its
        answers; the search begins at the share `turn` (0 to 1) of the article."""
        while own >= self._start + len(self._searched):
            self._start += len(self._searched)
            self._searched = list(map(_forms_for_search, next(self._articles)[1]))
        end = self._start + len(self._searched)
        first = self._start + int(turn * len(self._searched))
        forms = list(map(_forms_for_search, answers))
        suitable = (
            row
            for row in (*range(first, end), *range(self._start, first))
            if self._contexts.keep[row] and row != own
            if (searched := self._searched[row - self._start])[0]
            if not any(any(map(contains, searched, answer)) for answer in forms)
        )
        return next(suitable, None)


def _forms_for_search(text: str) -> tuple[str, str]:
    """A text as it is written, and as SQuAD compares answers, in whole words."""
    return normalized(text), f" {normalize_answer(text)} "


def _rows(contexts: Mapping[int, int], questions: Any, ledger: Any) -> tuple[Any, Any]:
    """The questions and ledger rows of negatives, in the schemas of their questions."""
    rows, count = pa.array(list(contexts), pa.int64()), len(contexts)
    questions, ledger = questions.take(rows), ledger.take(rows)
    ids = [id + SIGN for id in questions.column("id").to_pylist()]
    new_questions = {
        "id": ids,
        "context_id": list(contexts.values()),
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
