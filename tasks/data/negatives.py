"""Same-article negatives: questions paired with a second paragraph that does not answer them.

The second paragraph comes from the same article, so it is about the same topic, and contains none
of the question's answers. Source: Clark & Gardner 2018, section 3.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from tasks.data.ingested import Contexts, batches, normalized, with_column
from tasks.data.partition import lot

REASON = "asked about another paragraph of its article"


class Negatives:
    """Makes negatives from a portion's questions, batch by batch, in the order of the questions."""

    def __init__(self, contexts: Contexts, share: float, seed: int) -> None:
        """`share` of the answerable questions is drawn, by seed and question id."""
        self._contexts, self._share, self._seed = contexts, share, seed
        self._texts = _Texts(contexts)

    def of(self, questions: Any, ledger: Any) -> tuple[Any, Any]:
        """Negatives of a batch of questions and of its ledger rows, in the same two schemas."""
        places = list(self._places(questions))
        rows = pa.array([row for row, _ in places], pa.int64())
        questions, ledger = questions.take(rows), ledger.take(rows)
        ids = [f"{key}≠" for key in questions.column("id").to_pylist()]
        return _unanswerable(questions, ids, [place for _, place in places]), _told(ledger, ids)

    def _places(self, questions: Any) -> Iterator[tuple[int, int]]:
        """Yield each drawn row and the index of the context to pair it with."""
        columns = (questions.column(name).to_pylist() for name in ("id", "context_id", "answers"))
        for row, (key, own, answers) in enumerate(zip(*columns, strict=True)):
            if answers and lot("negative", self._seed, key) < self._share:
                place = self._place(key, own, [normalized(answer["text"]) for answer in answers])
                if place is not None:
                    yield row, place

    def _place(self, key: str, own: int, answers: list[str]) -> int | None:
        """The first suitable context of the article from a random start on, or None."""
        first, last = self._contexts.article_of(own)
        texts, count = self._texts.between(first, last), last - first
        drawn = int(lot("place", self._seed, key) * count)
        for step in range(count):
            at = (drawn + step) % count
            fits = self._contexts.keep[first + at] and first + at != own and texts[at]
            if fits and not any(answer in texts[at] for answer in answers):
                return first + at
        return None


class _Texts:
    """The normalised texts of a portion's contexts, read lazily."""

    def __init__(self, contexts: Contexts) -> None:
        rows = batches(contexts.portion.folder / "contexts.parquet", ["text"])
        self._rows = (normalized(text) for b in rows for text in b.column("text").to_pylist())
        self._first = 0
        self._held: list[str] = []

    def between(self, first: int, last: int) -> list[str]:
        """The texts of contexts [first, last); `first` must not decrease between calls."""
        missing = last - self._first - len(self._held)
        self._held += islice(self._rows, max(missing, 0))
        if first > self._first:
            del self._held[: first - self._first]
            self._first = first
        return self._held


def _unanswerable(questions: Any, ids: list[str], contexts: list[int]) -> Any:
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


def _told(ledger: Any, ids: list[str]) -> Any:
    count = len(ids)
    columns: dict[str, list[Any]] = {name: [None] * count for name in ledger.schema.names}
    columns |= {"id": ids, "outcome": ["impossible"] * count, "reason": [REASON] * count}
    columns |= {"span": [""] * count, "em": [1.0] * count, "f1": [1.0] * count}
    for name, values in columns.items():
        ledger = with_column(ledger, name, values)
    return ledger
