"""Writes articles as the Parquet files of an ingested split, with a ledger of every answer.

The shards of a file become tables independently, on all nodes of the cluster if there is one. Their
rows are numbered and written here, in order, so the files do not depend on the cut.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from infra.cluster.map_reduce import map_on_cluster
from infra.errors import UserError
from infra.files import READ_PROGRESS
from models.arrays import FloatArray
from tasks.data.answer_errors import ERROR_DESCRIPTIONS
from tasks.data.importers.records import Counts
from tasks.data.importers.table import SQUAD
from tasks.data.ingested import (
    FROM_ROWS,
    TABLES,
    count_contexts,
    count_questions,
    refuse_repeated_ids,
    split_facts,
    table_writers,
    with_columns,
)
from tasks.data.offsets import LEAST
from tasks.data.readers import (
    MOVED,
    SPANS,
    Reading,
    Shard,
    find_convention,
    naming,
    placed_entry,
    read_shards,
)
from tasks.data.schema import Article
from tasks.data.shard_tables import Place, ShardTables, shard_tables

BATCH_CHARACTERS = 1 << 20
# A row group is written as soon as it reaches one of these two limits.
BATCH_QUESTIONS = 1 << 13


class IngestStats:
    """Counts of questions by outcome and error, and sums of their oracle scores."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        # Whether the v2.0 rule applies is known only at the end, so both rules are summed.
        self._sums = np.zeros(4)
        self._v2 = False

    def add(self, tables: Mapping[str, Any], scores: FloatArray) -> None:
        """Count the rows of a shard, and add their scores one after the other."""
        count_contexts(self.counts, tables["contexts"])
        count_questions(self.counts, tables["questions"], tables["alignment"])
        self._v2 |= bool(pc.any(tables["questions"].column("is_impossible")).as_py())
        # Another order of summation would round differently.
        self._sums = np.add.accumulate(np.vstack([self._sums, scores]))[-1]

    def refuse_invalid(self, folder: Path, max_rejected: float) -> None:
        """Raises UserError if there are no questions, or if too many were dropped.

        The message takes the most common error, and an example of it, from the ledger in `folder`.
        """
        questions, dropped = self.counts["questions"], self.counts["dropped"]
        if not questions:
            raise UserError("no questions found. Add at least one question to the file.")
        if dropped > max_rejected * questions:
            ledger: Any = pq.read_table(
                folder / "alignment.parquet",
                columns=["id", "fault", "reason"],
                filters=[("outcome", "=", "dropped")],
            ).to_pylist()
            kind, count = Counter(row["fault"] for row in ledger).most_common(1)[0]
            example = next(row for row in ledger if row["fault"] == kind)
            raise UserError(
                f"{dropped:,} of {questions:,} questions ({dropped / questions:.1%}) can't be "
                f"trained on, more than the limit of {max_rejected:.1%}. Most common error "
                f"({count:,}): {ERROR_DESCRIPTIONS[kind]}, e.g. question "
                f'"{example["id"]}" ({example["reason"]}). Fix the file, set repair to move '
                "such answers, or raise the limit, max_rejected."
            )

    def facts(self) -> dict[str, int | float]:
        """The `split_facts`, by the v2.0 rule if any question is impossible, else by v1.1."""
        em, f1 = (self._sums[:2] if self._v2 else self._sums[2:]).tolist()
        return split_facts(self.counts, {"em": em, "f1": f1})


def ingest_file(
    out: Path, file: Path, repair: bool = False, max_rejected: float = 1.0, columns: str = ""
) -> dict[str, Any]:
    """Reads a file of questions and writes its three tables into the folder `out`.

    If many answers do not match their offset, the file is read again in the convention that
    explains them, if one does. `columns` names those of a table (see `parse_columns`).

    Returns the facts of `ingest_articles`, and in `read_as` sentences on how the file was read.
    Raises UserError, which names the file, if the file is malformed or `ingest_articles` raises.
    """
    reading = Reading(columns)
    with naming(file):
        tables = _FileTables(file, repair, reading)
        stats = _write(out, tables.shards())
        convention = None
        if stats.counts["invalid_answers"] + tables.counts[SPANS] >= LEAST:
            convention = find_convention(file, reading)
        if convention is not None:
            tables = _FileTables(file, repair, replace(reading, convention=convention))
            stats = _write(out, tables.shards())
        return {**_checked(out, stats, max_rejected), "read_as": tables.sentences()}


def ingest_articles(
    articles: Iterable[Article], out: Path, repair: bool = False, max_rejected: float = 1.0
) -> dict[str, int | float]:
    """Writes contexts.parquet, questions.parquet and alignment.parquet into the folder `out`.

    Every paragraph is one context and every question one row, in the order of the articles. Equal
    articles produce equal bytes. At most a few thousand questions are in memory at a time. With
    `repair`, an answer that does not match its answer_start is replaced by its nearest match in
    the context.

    Returns counts of articles, contexts, questions, tokens and outcomes, and the oracle EM
    and F1 (0..100), which score the texts of the aligned spans against the answers. They follow the
    v2.0 rule if any question is impossible, else the v1.1 rule. The scores in the ledger always
    follow the v2.0 rule; the two differ only if an answer normalises to nothing. A question that is
    not impossible but has no answers scores 0.

    Raises UserError if there are no questions, if two questions share an id, or if the share of
    dropped questions exceeds `max_rejected`.
    """
    shards = (shard_tables([article], repair) for article in articles)
    return _checked(out, _write(out, shards), max_rejected)


class _FileTables:
    """The tables of a file's shards, and what is counted on the way."""

    def __init__(self, file: Path, repair: bool, reading: Reading) -> None:
        self._file, self._repair, self._reading = file, repair, reading
        self._importer = SQUAD
        self.counts: Counts = Counter()

    def shards(self) -> Iterator[ShardTables]:
        """Yield the tables of each shard, made on all nodes of the cluster if there is one."""
        made = map_on_cluster(partial(_file_shard, self._repair), self._importing())
        for share, counts, tables in made:
            self.counts.update(counts)
            yield tables
            READ_PROGRESS.get()(self._file, share)

    def _importing(self) -> Iterator[Shard]:
        for shard in read_shards(self._file, self._reading):
            self._importer = shard.importer
            yield shard

    def sentences(self) -> list[str]:
        """As what the file was read, and what was left out or changed."""
        noun = f"{self._importer.noun}s"
        shown = {noun: self.counts[noun], **self.counts}
        counts = ", ".join(f"{n:,} {text}" for text, n in shown.items() if n and text[0].islower())
        note = f" ({self._importer.note})" if self._importer.note else ""
        sentences = [f"read as {self._importer.name}: {counts or 'nothing'}{note}"]
        if convention := self._reading.convention:
            moved = self.counts[MOVED]
            sentences.append(f"offsets are {convention.name}: {moved:,} answers were moved")
        return sentences


def _file_shard(repair: bool, shard: Shard) -> tuple[float, Counts, ShardTables]:
    counts: Counts = Counter()
    entries = (
        placed_entry(entry, shard.reading.convention, counts) for entry in shard.entries(counts)
    )
    tables = shard_tables(entries, repair)
    return shard.share, counts, tables


def _checked(out: Path, stats: IngestStats, max_rejected: float) -> dict[str, int | float]:
    """The facts; raises UserError if questions are missing, share an id or are mostly invalid."""
    refuse_repeated_ids(out)
    stats.refuse_invalid(out, max_rejected)
    return stats.facts()


def _write(out: Path, shards: Iterable[ShardTables]) -> IngestStats:
    with table_writers(out, TABLES) as writers:
        writer = _Writer(writers)
        for shard in shards:
            writer.add(shard)
        writer.write_row_group()
        writers["contexts"].add_key_value_metadata({FROM_ROWS: str(writer.from_rows)})
    return writer.stats


class _Writer:
    """Writes the rows of shards in row groups, whose limits do not depend on the shards."""

    def __init__(self, writers: Mapping[str, pq.ParquetWriter]) -> None:
        self.stats = IngestStats()
        self.from_rows = False
        self._writers = writers
        self._last: Place | None = None
        self._new_row_group()

    def _new_row_group(self) -> None:
        self._parts: dict[str, list[Any]] = {name: [] for name in TABLES}
        self._characters = self._questions = 0

    def add(self, shard: ShardTables) -> None:
        """Number and count the rows of a shard, and write the row groups that it completes."""
        if not shard.articles:
            return
        same_context = shard.first is not None and shard.first == self._last
        tables = self._numbered(shard, same_context)
        self.stats.add(tables, shard.scores)
        self.from_rows |= shard.has_rows
        self._last = shard.last
        begin, end = Counter[str](), Counter[str]()
        for name, characters in shard.rows[same_context:]:
            end[name] += 1
            self._characters += characters
            self._questions += name == "questions"
            if self._characters >= BATCH_CHARACTERS or self._questions >= BATCH_QUESTIONS:
                self._take(tables, begin, end)
                self.write_row_group()
                begin = end.copy()
        self._take(tables, begin, end)

    def _numbered(self, shard: ShardTables, same_context: bool) -> dict[str, Any]:
        """The shard's tables, numbered on, without a first context that was written before."""
        counts = self.stats.counts
        same_article = bool(
            shard.first and self._last and shard.first.article == self._last.article
        )
        first_article = counts["articles"] - same_article
        first_context = counts["contexts"] - same_context
        counts["articles"] = first_article + shard.articles
        contexts = _shifted(
            shard.tables["contexts"], context_id=first_context, article=first_article
        )
        questions = _shifted(shard.tables["questions"], context_id=first_context)
        return {**shard.tables, "contexts": contexts.slice(same_context), "questions": questions}

    def _take(self, tables: Mapping[str, Any], begin: Counter[str], end: Counter[str]) -> None:
        """Add the contexts and the questions from `begin` to `end` to the row group."""
        for name, table in tables.items():
            rows = "contexts" if name == "contexts" else "questions"
            if end[rows] > begin[rows]:
                self._parts[name].append(table.slice(begin[rows], end[rows] - begin[rows]))

    def write_row_group(self) -> None:
        """Write what was added since the last row group, if anything."""
        for name, parts in self._parts.items():
            if parts:
                self._writers[name].write_table(pa.Table.from_batches(parts).combine_chunks())
        self._new_row_group()


def _shifted(batch: Any, **first: int) -> Any:
    """A record batch whose columns are numbered from `first` instead of 0."""
    shifted = {
        name: pc.add(batch.column(name), pa.scalar(number, pa.int32()))
        for name, number in first.items()
    }
    return with_columns(batch, shifted)
