"""Writes the three tables of a split, batch by batch, out of those of ingested files."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.held_out import lot
from tasks.portions import Contexts, batches, in_step

IntArray = npt.NDArray[np.int32]

OUTCOMES = ("impossible", "exact", "widened", "repaired", "dropped")


class SplitWriter:
    """Writes the three tables of a split batch by batch, and counts what it writes."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._files: dict[str, pq.ParquetWriter] = {}
        self.counts: Counter[str] = Counter()
        self._outcomes = Counter(dict.fromkeys(OUTCOMES, 0))
        self._scores = {"em": 0.0, "f1": 0.0}

    def __enter__(self) -> "SplitWriter":
        return self

    def __exit__(self, *raised: object) -> None:
        for file in self._files.values():
            file.close()

    def _write(self, name: str, batch: Any) -> None:
        if name not in self._files:
            self._files[name] = pq.ParquetWriter(
                self._out / f"{name}.parquet", batch.schema, compression="zstd"
            )
        self._files[name].write_batch(batch)

    def add(self, contexts: Contexts, seed: int) -> None:
        """Write the kept contexts of a portion, and their questions by its weight."""
        numbers = np.where(contexts.keep, np.cumsum(contexts.keep) - 1, -1).astype(np.int32)
        numbers[contexts.keep] += self.counts["contexts"]
        folder = contexts.portion.folder
        self._add_contexts(folder, numbers)
        for questions, ledger in in_step(
            folder / "questions.parquet", folder / "alignment.parquet"
        ):
            self._add_questions(questions, ledger, numbers, contexts.portion.weight, seed)

    def _add_contexts(self, folder: Path, numbers: IntArray) -> None:
        articles, last = self.counts["articles"] - 1, -1
        for batch in batches(folder / "contexts.parquet"):
            number = numbers[batch.column("context_id").to_numpy()]
            kept = batch.filter(pa.array(number >= 0))
            if not kept.num_rows:
                continue
            given = kept.column("article").to_numpy()
            begins = np.diff(given, prepend=last) != 0
            last = given[-1]
            article = articles + np.cumsum(begins)
            articles = int(article[-1])
            kept = _with(kept, "context_id", number[number >= 0])
            self._write("contexts", _with(kept, "article", article.astype(np.int32)))
            self.counts["contexts"] += kept.num_rows
            self.counts["context_tokens"] += _tokens(kept)
        self.counts["articles"] = articles + 1

    def _add_questions(
        self, questions: Any, ledger: Any, numbers: IntArray, weight: float, seed: int
    ) -> None:
        number = numbers[questions.column("context_id").to_numpy()]
        ids = questions.column("id").to_pylist()
        copies = np.where(number >= 0, _copies(ids, weight, seed), 0)
        rows = np.repeat(np.arange(len(ids)), copies)
        if not len(rows):
            return
        copied = [
            f"{ids[row]}×{copy}" if copy > 1 else ids[row]
            for row, times in enumerate(copies)
            for copy in range(1, times + 1)
        ]
        questions, ledger = questions.take(pa.array(rows)), ledger.take(pa.array(rows))
        questions = _with(_with(questions, "id", copied), "context_id", number[rows])
        ledger = _with(ledger, "id", copied)
        self._write("questions", questions)
        self._write("alignment", ledger)
        self.counts["questions"] += len(rows)
        self.counts["question_tokens"] += _tokens(questions)
        self._outcomes.update(ledger.column("outcome").to_pylist())
        for name in self._scores:
            self._scores[name] += pc.sum(ledger.column(name)).as_py()

    def facts(self) -> dict[str, int | float]:
        """What `ingest_articles` tells of an ingested split, of all that was written."""
        counts = self.counts
        return {
            **{name: counts[name] for name in ("articles", "contexts", "questions")},
            "answerable": counts["questions"] - self._outcomes["impossible"],
            **self._outcomes,
            **{
                f"oracle_{name}": 100 * total / counts["questions"]
                for name, total in self._scores.items()
            },
            **{name: counts[name] for name in ("context_tokens", "question_tokens")},
        }


def _with(batch: Any, column: str, values: Any) -> Any:
    index = batch.schema.get_field_index(column)
    return batch.set_column(index, batch.schema.field(index), pa.array(values))


def _tokens(batch: Any) -> int:
    return pc.sum(pc.list_value_length(batch.column("token_starts"))).as_py() or 0


def _copies(ids: Sequence[str], weight: float, seed: int) -> npt.NDArray[np.int64]:
    whole, part = divmod(weight, 1)
    if not part:
        return np.full(len(ids), int(whole))
    return np.array([int(whole) + (lot("copy", seed, text) < part) for text in ids])
