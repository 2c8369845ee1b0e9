"""Unanswerable questions made by rule from answerable ones, of three kinds.

- `paragraph`: the question is asked about another paragraph of its article.
- `nearest`: it is asked about the article's paragraph that is most similar to it by TF-IDF.
- `swap`: a name, number, year or month of the question is swapped for another of its context.

The paragraphs of the first two kinds are about the same topic and contain none of the question's
answers. Sources: Clark & Gardner 2018, section 3, for the first two; see `swaps` for the third.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import contains
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, Field

from models.squad_metrics import normalize_answer
from tasks.data.ingested import Contexts, hash_uniform, normalized, with_columns
from tasks.data.swaps import possible_swaps
from tasks.data.text_spans import Text
from tasks.data.tfidf import TfIdf

NegativeKind = Literal["paragraph", "nearest", "swap"]

# The last character of a negative's id.
SIGNS: dict[NegativeKind, str] = {"paragraph": "≠", "nearest": "≈", "swap": "⇄"}
# What a question needs for a negative of the kind.
REQUIREMENTS: dict[NegativeKind, str] = {
    "paragraph": "has another paragraph in its article without its answers",
    "nearest": "has another paragraph in its article without its answers",
    "swap": "has a name, number, year or month that another one of its context can replace",
}
# Prefixes of the numbers that decide which questions are sampled, independently for each kind.
_PURPOSES: dict[NegativeKind, str] = {
    "paragraph": "negative",
    "nearest": "nearest negative",
    "swap": "swapped negative",
}


class NegativeShares(BaseModel, frozen=True):
    """The share of the answerable questions to sample for each kind of negatives."""

    paragraph: float = Field(0, ge=0, le=1)
    nearest: float = Field(0, ge=0, le=1)
    swap: float = Field(0, ge=0, le=1)

    def by_kind(self) -> dict[NegativeKind, float]:
        """The shares of the kinds that are above 0."""
        shares: dict[NegativeKind, float] = {
            "paragraph": self.paragraph,
            "nearest": self.nearest,
            "swap": self.swap,
        }
        return {kind: share for kind, share in shares.items() if share}


NO_NEGATIVES = NegativeShares()


def negative_kind(id: str) -> NegativeKind | None:
    """The kind of the negative with an id; None for other questions."""
    return next((kind for kind, sign in SIGNS.items() if id.endswith(sign)), None)


@dataclass(frozen=True)
class _Source:
    """An answerable question from which negatives are made."""

    row: int  # in its batch
    id: str
    context: int
    question: str
    answers: Sequence[tuple[str, int]]  # text, first character in the context


@dataclass(frozen=True)
class _Negative:
    row: int  # of its source
    context: int
    reason: str  # for the ledger
    question: Text | None = None  # the changed question


class _Article:
    """The contexts of an article, of which the first is in row `start`."""

    def __init__(self, contexts: Contexts, start: int, title: str, texts: Sequence[str]) -> None:
        self._contexts, self._start, self._texts = contexts, start, texts
        self._searched = list(map(_forms_for_search, texts))
        self.title, self.end = title, start + len(texts)
        self._passage = (-1, Text(""))  # the newest: questions about a context come together

    def passage(self, row: int) -> Text:
        """The context in a row."""
        if self._passage[0] != row:
            self._passage = row, Text(self._texts[row - self._start])
        return self._passage[1]

    def rotated(self, turn: float) -> list[int]:
        """The rows of the contexts, beginning at a share of them (0 to 1)."""
        first = self._start + int(turn * len(self._texts))
        return [*range(first, self.end), *range(self._start, first)]

    def ranked(self, question: str) -> list[int]:
        """The rows of the contexts, those most similar to the question first."""
        return [self._start + position for position in self._index.ranking(question)]

    def first_without_answer(self, rows: Sequence[int], source: _Source) -> int | None:
        """The first of these rows that is kept, not the question's own, and has no answer."""
        answers = [_forms_for_search(text) for text, _ in source.answers]
        suitable = (
            row
            for row in rows
            if self._contexts.keep[row] and row != source.context
            if (forms := self._searched[row - self._start])[0]
            if not any(any(map(contains, forms, answer)) for answer in answers)
        )
        return next(suitable, None)

    @cached_property
    def _index(self) -> TfIdf:
        return TfIdf(self._texts)


class NegativeSampler:
    """Makes negatives from a portion's questions, batch by batch, in the order of the questions.

    One article is in memory at a time. What is made depends on seed, question id and article only.
    """

    def __init__(self, contexts: Contexts, shares: NegativeShares, seed: int) -> None:
        self._contexts, self._shares, self._seed = contexts, shares.by_kind(), seed
        self._articles = contexts.by_article()
        self._article = _Article(contexts, 0, "", [])
        self._makers: dict[NegativeKind, Callable[[_Source], _Negative | None]] = {
            "paragraph": self._other_paragraph,
            "nearest": self._nearest_paragraph,
            "swap": self._swapped,
        }

    def sample(self, questions: Any, ledger: Any) -> Iterator[tuple[NegativeKind, Any, Any]]:
        """Yield the negatives of each kind, made from a batch of questions and its ledger rows.

        They have the same two schemas.
        """
        made: dict[NegativeKind, list[_Negative]] = {kind: [] for kind in self._shares}
        for source in _sources(questions):
            for kind, share in self._shares.items():
                if hash_uniform(_PURPOSES[kind], self._seed, source.id) < share:
                    self._move_to(source.context)
                    if negative := self._makers[kind](source):
                        made[kind].append(negative)
        for kind, negatives in made.items():
            yield kind, *_rows(kind, negatives, questions, ledger)

    def _move_to(self, context: int) -> None:
        while context >= self._article.end:
            self._article = _Article(self._contexts, self._article.end, *next(self._articles))

    def _other_paragraph(self, source: _Source) -> _Negative | None:
        turn = hash_uniform("place", self._seed, source.id)
        reason = "asked about another paragraph of its article"
        return self._elsewhere(source, self._article.rotated(turn), reason)

    def _nearest_paragraph(self, source: _Source) -> _Negative | None:
        reason = "asked about the most similar other paragraph of its article"
        return self._elsewhere(source, self._article.ranked(source.question), reason)

    def _elsewhere(self, source: _Source, rows: Sequence[int], reason: str) -> _Negative | None:
        row = self._article.first_without_answer(rows, source)
        return None if row is None else _Negative(source.row, row, reason)

    def _swapped(self, source: _Source) -> _Negative | None:
        passage = self._article.passage(source.context)
        title = self._article.title
        swaps = possible_swaps(Text(source.question), passage, source.answers, title)
        if not swaps:
            return None
        swap = swaps[int(hash_uniform("swap", self._seed, source.id) * len(swaps))]
        reason = f'{swap.kind} "{swap.old}" swapped for "{swap.new}"'
        return _Negative(source.row, source.context, reason, Text(swap.question))


def _forms_for_search(text: str) -> tuple[str, str]:
    """A text as it is written, and as SQuAD compares answers, in whole words."""
    return normalized(text), f" {normalize_answer(text)} "


def _sources(questions: Any) -> Iterator[_Source]:
    """The answerable questions; those without a training answer are invalid, and not trained on."""
    columns = ("id", "context_id", "question", "answers", "span_start")
    values = (questions.column(name).to_pylist() for name in columns)
    for row, (id, context, question, answers, span_start) in enumerate(zip(*values, strict=True)):
        if span_start >= 0:
            pairs = [(answer["text"], answer["start"]) for answer in answers]
            yield _Source(row, id, context, question, pairs)


def _rows(
    kind: NegativeKind, negatives: Sequence[_Negative], questions: Any, ledger: Any
) -> tuple[Any, Any]:
    """The questions and ledger rows of negatives, in the schemas of their sources."""
    rows = pa.array([negative.row for negative in negatives], pa.int64())
    questions, ledger = questions.take(rows), ledger.take(rows)
    count = len(negatives)
    ids = [id + SIGNS[kind] for id in questions.column("id").to_pylist()]
    new_questions = {
        "id": ids,
        "context_id": [negative.context for negative in negatives],
        "answers": [[]] * count,
        "is_impossible": [True] * count,
        "span_start": [-1] * count,
        "span_end": [-1] * count,
    }
    changed = [negative.question for negative in negatives if negative.question]
    if changed:  # all negatives of a kind are changed, or none
        new_questions["question"] = [text.text for text in changed]
        new_questions["token_starts"] = [[start for start, _ in t.offsets] for t in changed]
        new_questions["token_ends"] = [[end for _, end in t.offsets] for t in changed]
    new_ledger = {
        **{name: [None] * count for name in ledger.schema.names},
        "id": ids,
        "outcome": ["impossible"] * count,
        "reason": [negative.reason for negative in negatives],
        "answer_errors": [[]] * count,
        "span": [""] * count,
        "em": [1.0] * count,
        "f1": [1.0] * count,
    }
    return with_columns(questions, new_questions), with_columns(ledger, new_ledger)
