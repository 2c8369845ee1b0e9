"""Statistics of ingested data, batch by batch: lengths, question words and annotation errors."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.data.ingested import batches, questions_with_ledger
from tasks.evaluation.slices import bucket_names, question_word

# Inclusive upper edges of the histograms of lengths in tokens.
LENGTH_EDGES = {
    "Contexts": (25, 50, 100, 150, 200, 300, 400, 800),
    "Questions": (5, 8, 10, 12, 15, 20, 30),
    "Answers": (1, 2, 3, 5, 10, 15, 30),
}
# Number of questions shown for each kind of error.
EXAMPLES = 3

# A question with an annotation error: its columns in `_errors`, its `file` and its `context`.
ErrorExample = dict[str, Any]


@dataclass
class DataStatistics:
    """Statistics of one or more ingested files."""

    # How many texts have each length in tokens, by kind of text, a key of `LENGTH_EDGES`.
    lengths: dict[str, Counter[int]] = field(
        default_factory=lambda: {kind: Counter() for kind in LENGTH_EDGES}
    )
    question_words: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)  # questions by kind of error
    repaired: Counter[str] = field(default_factory=Counter)  # repaired ones by kind of error
    examples: list[ErrorExample] = field(default_factory=list)

    def add(self, name: str, folder: Path) -> None:
        """Add one ingested file, shown as `name`."""
        for batch in batches(folder / "contexts.parquet", ["token_starts"]):
            self.lengths["Contexts"].update(_lengths(batch))
        examples: list[ErrorExample] = []
        for questions, alignments in questions_with_ledger(folder):
            self._add_questions(questions)
            for error in _errors(questions, alignments):
                kind = error["fault"]
                self.errors[kind] += 1
                self.repaired[kind] += error["repaired"] is not None
                if self.errors[kind] <= EXAMPLES:
                    examples.append(error)
        texts = _context_texts(folder, {error["context_id"] for error in examples})
        self.examples += [
            error | {"file": name, "context": texts[error["context_id"]]} for error in examples
        ]

    def _add_questions(self, questions: Any) -> None:
        self.lengths["Questions"].update(_lengths(questions))
        start, end = (questions.column(f"span_{side}").to_numpy() for side in ("start", "end"))
        self.lengths["Answers"].update((end - start + 1)[start >= 0].tolist())
        self.question_words.update(map(question_word, questions.column("question").to_pylist()))


def histogram(lengths: Counter[int], edges: Sequence[int]) -> list[tuple[str, int]]:
    """The name of each bucket with these inclusive upper edges, and how many lengths it has."""
    buckets = np.searchsorted(edges, list(lengths))
    counts = np.bincount(buckets, list(lengths.values()), len(edges) + 1).astype(int)
    return list(zip(bucket_names(edges), counts.tolist(), strict=True))


def _lengths(batch: Any) -> Any:
    """The number of tokens of each text, as a list."""
    return pc.list_value_length(batch.column("token_starts")).to_pylist()


def _errors(questions: Any, alignments: Any) -> list[dict[str, Any]]:
    """The questions with an annotation error, each with its row of alignment.parquet."""
    mask = pc.is_valid(alignments.column("fault"))
    rows = questions.select(["id", "question", "context_id"]).filter(mask).to_pylist()
    columns = ["fault", "reason", "gold", "gold_start", "repaired"]
    errors = alignments.select(columns).filter(mask).to_pylist()
    return [row | error for row, error in zip(rows, errors, strict=True)]


def _context_texts(folder: Path, context_ids: set[int]) -> dict[int, str]:
    texts: dict[int, str] = {}
    if context_ids:
        for batch in batches(folder / "contexts.parquet", ["context_id", "text"]):
            ids = batch.column("context_id")
            selected = batch.filter(pc.is_in(ids, pa.array(context_ids, ids.type)))
            texts |= zip(*(column.to_pylist() for column in selected.columns), strict=True)
    return texts
