"""Statistics of ingested data, batch by batch: lengths, question words and annotation errors."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tasks.data.ingested import batches, paired_batches
from tasks.evaluation.slices import bucket_names, question_word

CONTEXT_EDGES = (25, 50, 100, 150, 200, 300, 400, 800)
QUESTION_EDGES = (5, 8, 10, 12, 15, 20, 30)
ANSWER_EDGES = (1, 2, 3, 5, 10, 15, 30)
EXAMPLES = 3
"""Number of questions shown for each kind of error."""

ALIGNMENT_COLUMNS = ["fault", "reason", "gold", "gold_start", "repaired", "repaired_start"]


class ErrorExample(NamedTuple):
    """A question with an annotation error, its row of alignment.parquet, and its context."""

    file: str
    question: Mapping[str, Any]  # id, question
    alignment: Mapping[str, Any]  # ALIGNMENT_COLUMNS
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
class DataStatistics:
    """Statistics of one or more ingested files."""

    contexts: Lengths = field(default_factory=lambda: Lengths(CONTEXT_EDGES))
    questions: Lengths = field(default_factory=lambda: Lengths(QUESTION_EDGES))
    answers: Lengths = field(default_factory=lambda: Lengths(ANSWER_EDGES))
    question_words: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)  # questions by kind of error
    repaired: Counter[str] = field(default_factory=Counter)  # repaired ones by kind of error
    examples: dict[str, list[ErrorExample]] = field(default_factory=dict)

    def add(self, name: str, folder: Path) -> None:
        """Add one ingested file, shown as `name`."""
        for batch in batches(folder / "contexts.parquet", ["token_starts"]):
            self.contexts.add(_token_counts(batch))
        examples: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
        for questions, alignments in paired_batches(
            folder / "questions.parquet", folder / "alignment.parquet"
        ):
            self._add_questions(questions)
            for question, alignment in _with_errors(questions, alignments):
                kind = alignment["fault"]
                self.errors[kind] += 1
                self.repaired[kind] += alignment["repaired"] is not None
                collected = len(self.examples.get(kind, [])) + len(examples.get(kind, []))
                if collected < EXAMPLES:
                    examples.setdefault(kind, []).append((question, alignment))
        self._add_examples(name, folder, examples)

    def _add_questions(self, questions: Any) -> None:
        self.questions.add(_token_counts(questions))
        start, end = (questions.column(f"span_{side}").to_numpy() for side in ("start", "end"))
        self.answers.add((end - start + 1)[start >= 0])
        self.question_words.update(map(question_word, questions.column("question").to_pylist()))

    def _add_examples(
        self,
        name: str,
        folder: Path,
        examples: Mapping[str, Iterable[tuple[dict[str, Any], dict[str, Any]]]],
    ) -> None:
        context_ids = {
            question["context_id"] for pairs in examples.values() for question, _ in pairs
        }
        texts = _context_texts(folder, context_ids)
        for kind, pairs in examples.items():
            self.examples.setdefault(kind, []).extend(
                ErrorExample(name, question, alignment, texts[question["context_id"]])
                for question, alignment in pairs
            )


def _token_counts(batch: Any) -> npt.NDArray[np.integer]:
    counts: npt.NDArray[np.integer] = pc.list_value_length(batch.column("token_starts")).to_numpy()
    return counts


def _with_errors(
    questions: Any, alignments: Any
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    mask = pc.is_valid(alignments.column("fault"))
    texts = questions.select(["id", "question", "context_id"]).filter(mask).to_pylist()
    rows = alignments.select(ALIGNMENT_COLUMNS).filter(mask).to_pylist()
    yield from zip(texts, rows, strict=True)


def _context_texts(folder: Path, context_ids: set[int]) -> dict[int, str]:
    texts: dict[int, str] = {}
    if context_ids:
        for batch in batches(folder / "contexts.parquet", ["context_id", "text"]):
            ids = batch.column("context_id").to_pylist()
            texts |= {
                id_: batch.column("text")[row].as_py()
                for row, id_ in enumerate(ids)
                if id_ in context_ids
            }
    return texts
