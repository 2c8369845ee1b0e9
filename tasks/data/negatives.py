"""Same-article negatives: questions paired with a second paragraph that does not answer them.

The second paragraph comes from the same article, so it is about the same topic, and contains none
of the question's answers. Source: Clark & Gardner 2018, section 3.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from tasks.data.ingested import Contexts, batches, normalized, with_column
from tasks.data.partition import hash_uniform

REASON = "asked about another paragraph of its article"


class NegativeSampler:
    """Makes negatives from a portion's questions, batch by batch, in the order of the questions."""

    def __init__(self, contexts: Contexts, share: float, seed: int) -> None:
        """`share` of the answerable questions is sampled, by seed and question id."""
        self._contexts, self._share, self._seed = contexts, share, seed
        self._texts = _Texts(contexts)

    def sample(self, questions: Any, ledger: Any) -> tuple[Any, Any]:
        """Negatives of a batch of questions and of its ledger rows, in the same two schemas."""
        pairs = list(self._pairs(questions))
        rows = pa.array([row for row, _ in pairs], pa.int64())
        questions, ledger = questions.take(rows), ledger.take(rows)
        ids = [f"{id}≠" for id in questions.column("id").to_pylist()]
        return _question_rows(questions, ids, [context for _, context in pairs]), _ledger_rows(
            ledger, ids
        )

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
        first, last = self._contexts.article_of(own_context)
        texts, count = self._texts.between(first, last), last - first
        offset = int(hash_uniform("place", self._seed, id) * count)
        for step in range(count):
            at = (offset + step) % count
            other = first + at != own_context
            usable = self._contexts.keep[first + at] and other and texts[at]
            if usable and not any(answer in texts[at] for answer in answers):
                return first + at
        return None


class _Texts:
    """The normalised texts of a portion's contexts, read lazily."""

    def __init__(self, contexts: Contexts) -> None:
        rows = batches(contexts.portion.folder / "contexts.parquet", ["text"])
        self._rows = (normalized(text) for b in rows for text in b.column("text").to_pylist())
        self._first = 0
        self._buffer: list[str] = []

    def between(self, first: int, last: int) -> list[str]:
        """The texts of contexts [first, last); `first` must not decrease between calls."""
        missing = last - self._first - len(self._buffer)
        self._buffer += islice(self._rows, max(missing, 0))
        if first > self._first:
            del self._buffer[: first - self._first]
            self._first = first
        return self._buffer


def _question_rows(questions: Any, ids: list[str], contexts: list[int]) -> Any:
    count = len(ids)
    columns = {
        "id": ids,
        "context_id": contexts,
        "answers": [[]] * count,
        "is_impossible": [True] * count,
        "span_start": [-1] * count,
        "span_end": [-1] * count,
    }
    for name, values in columns.items():
        questions = with_column(questions, name, values)
    return questions


def _ledger_rows(ledger: Any, ids: list[str]) -> Any:
    count = len(ids)
    columns: dict[str, list[Any]] = {name: [None] * count for name in ledger.schema.names}
    columns |= {"id": ids, "outcome": ["impossible"] * count, "reason": [REASON] * count}
    columns |= {"span": [""] * count, "em": [1.0] * count, "f1": [1.0] * count}
    for name, values in columns.items():
        ledger = with_column(ledger, name, values)
    return ledger
