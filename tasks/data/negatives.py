"""Same-article negatives: questions paired with a second paragraph that does not answer them.

The second paragraph comes from the same article, so it is about the same topic, and contains none
of the question's answers. Source: Clark & Gardner 2018, section 3.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tasks.data.ingested import Contexts, hash_uniform, normalized, with_columns


class NegativeSampler:
    """Makes negatives from a portion's questions, batch by batch, in the order of the questions."""

    def __init__(self, contexts: Contexts, share: float, seed: int) -> None:
        """`share` of the answerable questions is sampled, by seed and question id."""
        self._contexts, self._share, self._seed = contexts, share, seed
        self._articles = contexts.by_article()
        # The current article's contexts, normalised, with their rows; and the row after the last.
        self._article: list[tuple[int, str]] = []
        self._end = 0

    def sample(self, questions: Any, ledger: Any) -> tuple[Any, Any]:
        """Negatives of a batch of questions and of its ledger rows, in the same two schemas."""
        pairs = list(self._pairs(questions))
        rows = pa.array([row for row, _ in pairs], pa.int64())
        questions, ledger = questions.take(rows), ledger.take(rows)
        ids = [f"{id}≠" for id in questions.column("id").to_pylist()]
        count = len(ids)
        new_questions = {
            "id": ids,
            "context_id": [context for _, context in pairs],
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

    def _pairs(self, questions: Any) -> Iterator[tuple[int, int]]:
        """Yield each sampled row and the index of the context to pair it with."""
        columns = (questions.column(name).to_pylist() for name in ("id", "context_id", "answers"))
        for row, (id, own_context, answers) in enumerate(zip(*columns, strict=True)):
            if answers and hash_uniform("negative", self._seed, id) < self._share:
                texts = [normalized(answer["text"]) for answer in answers]
                context = self._other_context(id, own_context, texts)
                if context is not None:
                    yield row, context

    def _other_context(self, id: str, own_context: int, answers: list[str]) -> int | None:
        """The first suitable context of the article from a random start on, or None."""
        while own_context >= self._end:
            _, texts = next(self._articles)
            self._article = list(enumerate(map(normalized, texts), self._end))
            self._end += len(texts)
        start = int(hash_uniform("place", self._seed, id) * len(self._article))
        suitable = (
            row
            for row, text in self._article[start:] + self._article[:start]
            if self._contexts.keep[row] and row != own_context and text
            if not any(answer in text for answer in answers)
        )
        return next(suitable, None)
