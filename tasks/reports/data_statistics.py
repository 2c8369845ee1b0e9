"""Ingest statistics, counted batch by batch: lengths, kinds of questions, and faults."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tasks.data.ingested import batches, in_step
from tasks.evaluation.slices import bucket_names, question_word

CONTEXT_EDGES = (25, 50, 100, 150, 200, 300, 400, 800)
QUESTION_EDGES = (5, 8, 10, 12, 15, 20, 30)
ANSWER_EDGES = (1, 2, 3, 5, 10, 15, 30)
EXAMPLES = 3
"""Number of questions shown for each kind of fault."""

LEDGER = ["fault", "reason", "gold", "gold_start", "repaired", "repaired_start"]


class Faulty(NamedTuple):
    """A question with a fault, with its ledger row and its context."""

    file: str
    question: Mapping[str, Any]  # id, question
    line: Mapping[str, Any]  # LEDGER
    context: str


@dataclass
class Lengths:
    """A histogram of lengths in tokens, with inclusive upper edges."""

    edges: Sequence[int]
    counts: npt.NDArray[np.int64] = field(init=False)
    longest: int = 0

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.edges) + 1, dtype=np.int64)

    def add(self, lengths: npt.NDArray[np.integer]) -> None:
        """Add lengths to the histogram."""
        buckets = np.searchsorted(self.edges, lengths)
        self.counts += np.bincount(buckets, minlength=len(self.counts))
        self.longest = max(self.longest, int(lengths.max(initial=0)))

    def rows(self) -> list[tuple[str, int]]:
        """Each bucket's name and count."""
        return list(zip(bucket_names(self.edges), self.counts.tolist(), strict=True))


@dataclass
class Survey:
    """Statistics of one or more ingested files."""

    contexts: Lengths = field(default_factory=lambda: Lengths(CONTEXT_EDGES))
    questions: Lengths = field(default_factory=lambda: Lengths(QUESTION_EDGES))
    answers: Lengths = field(default_factory=lambda: Lengths(ANSWER_EDGES))
    words: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)  # repaired questions by fault
    examples: dict[str, list[Faulty]] = field(default_factory=dict)

    def add(self, name: str, folder: Path) -> None:
        """Add one ingested file, shown as `name`."""
        for batch in batches(folder / "contexts.parquet", ["token_starts"]):
            self.contexts.add(_token_counts(batch))
        found: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
        for questions, ledger in in_step(
            folder / "questions.parquet", folder / "alignment.parquet"
        ):
            self._add_questions(questions)
            for question, line in _faulty(questions, ledger):
                kind = line["fault"]
                self.faults[kind] += 1
                self.repaired[kind] += line["repaired"] is not None
                seen = len(self.examples.get(kind, [])) + len(found.get(kind, []))
                if seen < EXAMPLES:
                    found.setdefault(kind, []).append((question, line))
        self._add_examples(name, folder, found)

    def _add_questions(self, questions: Any) -> None:
        self.questions.add(_token_counts(questions))
        start, end = (questions.column(f"span_{side}").to_numpy() for side in ("start", "end"))
        self.answers.add((end - start + 1)[start >= 0])
        self.words.update(map(question_word, questions.column("question").to_pylist()))

    def _add_examples(
        self,
        name: str,
        folder: Path,
        found: Mapping[str, Iterable[tuple[dict[str, Any], dict[str, Any]]]],
    ) -> None:
        wanted = {question["context_id"] for pairs in found.values() for question, _ in pairs}
        texts = _texts(folder, wanted)
        for kind, pairs in found.items():
            self.examples.setdefault(kind, []).extend(
                Faulty(name, question, line, texts[question["context_id"]])
                for question, line in pairs
            )


def _token_counts(batch: Any) -> npt.NDArray[np.integer]:
    counts: npt.NDArray[np.integer] = pc.list_value_length(batch.column("token_starts")).to_numpy()
    return counts


def _faulty(questions: Any, ledger: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    rows = pc.is_valid(ledger.column("fault"))
    asked = questions.select(["id", "question", "context_id"]).filter(rows).to_pylist()
    yield from zip(asked, ledger.select(LEDGER).filter(rows).to_pylist(), strict=True)


def _texts(folder: Path, wanted: set[int]) -> dict[int, str]:
    texts: dict[int, str] = {}
    if wanted:
        for batch in batches(folder / "contexts.parquet", ["context_id", "text"]):
            numbers = batch.column("context_id").to_pylist()
            texts |= {
                number: batch.column("text")[row].as_py()
                for row, number in enumerate(numbers)
                if number in wanted
            }
    return texts
