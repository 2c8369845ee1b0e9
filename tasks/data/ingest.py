"""Writes articles as the Parquet files of an ingested split, with a ledger of every answer.

The shards of a file become tables independently, on all nodes of the cluster if there is one. Their
rows are numbered and written here, in order, so the rows do not depend on the cut.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from infra.cluster.map_reduce import map_on_cluster
from infra.errors import UserError
from infra.files import READ_PROGRESS
from tasks.data.answer_errors import ERROR_DESCRIPTIONS
from tasks.data.entries import Entry
from tasks.data.importers.records import Counts
from tasks.data.importers.table import SQUAD, Importer
from tasks.data.ingested import (
    FROM_ROWS,
    TABLES,
    TablesWriter,
    refuse_repeated_ids,
    with_columns,
    writing_tables,
)
from tasks.data.offsets import LEAST, Convention
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
        written, counts, read_as = _ingest(out, file, repair, reading)
        convention = None
        if written.counts["invalid_answers"] + counts[SPANS] >= LEAST:
            convention = find_convention(file, reading)
        if convention is not None:
            reading = replace(reading, convention=convention)
            written, _, read_as = _ingest(out, file, repair, reading)
        return {**_checked(out, written, max_rejected), "read_as": read_as}


def ingest_articles(
    articles: Iterable[Article], out: Path, repair: bool = False, max_rejected: float = 1.0
) -> dict[str, int | float]:
    """Writes contexts.parquet, questions.parquet and alignment.parquet into the folder `out`.

    Every paragraph is one context and every question one row, in the order of the articles. Equal
    articles produce equal bytes. One article is in memory at a time. With `repair`, an answer that
    does not match its answer_start is replaced by its nearest match in the context.

    Returns counts of articles, contexts, questions, tokens and outcomes, and the oracle EM
    and F1 (0..100), which score the texts of the aligned spans against the answers by SQuAD's v2.0
    rule. (That of v1.1 differs only if an answer normalises to nothing.) A question that is not
    impossible but has no answers scores 0.

    Raises UserError if there are no questions, if two questions share an id, or if the share of
    dropped questions exceeds `max_rejected`.
    """
    shards = (shard_tables([Entry(article)], repair) for article in articles)
    return _checked(out, _write(out, shards), max_rejected)


def _ingest(
    out: Path, file: Path, repair: bool, reading: Reading
) -> tuple[TablesWriter, Counts, list[str]]:
    """Write the tables of a file, whose shards are made into tables on all nodes of the cluster if
    there is one; returns what was counted on the way, and sentences on how the file was read."""
    counts: Counts = Counter()
    importer = SQUAD

    def shards() -> Iterator[ShardTables]:
        nonlocal importer
        made = map_on_cluster(partial(_file_shard, repair), read_shards(file, reading))
        for share, recognised, found, tables in made:
            importer = recognised
            counts.update(found)
            yield tables
            READ_PROGRESS.get()(file, share)

    written = _write(out, shards())
    return written, counts, _read_as(importer, counts, reading.convention)


def _file_shard(repair: bool, shard: Shard) -> tuple[float, Importer, Counts, ShardTables]:
    counts: Counts = Counter()
    entries = (
        placed_entry(entry, shard.reading.convention, counts) for entry in shard.entries(counts)
    )
    tables = shard_tables(entries, repair)
    return shard.share, shard.importer, counts, tables


def _read_as(importer: Importer, counts: Counts, convention: Convention | None) -> list[str]:
    """As what a file was read, and what was left out or changed."""
    noun = f"{importer.noun}s"
    shown = {noun: counts[noun], **counts}
    listed = ", ".join(f"{n:,} {text}" for text, n in shown.items() if n and text[0].islower())
    note = f" ({importer.note})" if importer.note else ""
    sentences = [f"read as {importer.name}: {listed or 'nothing'}{note}"]
    if convention:
        sentences.append(f"offsets are {convention.name}: {counts[MOVED]:,} answers were moved")
    return sentences


def _checked(out: Path, written: TablesWriter, max_rejected: float) -> dict[str, int | float]:
    """The facts; raises UserError if questions are missing, share an id or are mostly invalid.

    The message takes the most common error, and an example of it, from the ledger.
    """
    refuse_repeated_ids(out)
    questions, dropped = written.counts["questions"], written.counts["dropped"]
    if not questions:
        raise UserError("no questions found. Add at least one question to the file.")
    if dropped > max_rejected * questions:
        ledger: Any = pq.read_table(
            out / "alignment.parquet",
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
    return written.facts()


def _write(out: Path, shards: Iterable[ShardTables]) -> TablesWriter:
    last: Place | None = None
    from_rows = False
    with writing_tables(out, TABLES) as writer:
        for shard in shards:
            if shard.articles:
                _add(writer, shard, last)
                last = shard.last
                from_rows |= shard.has_rows
        writer.describe_contexts({FROM_ROWS: str(from_rows)})
    return writer


def _add(writer: TablesWriter, shard: ShardTables, last: Place | None) -> None:
    """Write the rows of a shard, numbered on; its first article and context may be those of the
    shard before, which ended at the place `last`."""
    counts, first = writer.counts, shard.first
    same_context = first is not None and first == last
    same_article = bool(first and last and first[0] == last[0])
    first_article = counts["articles"] - same_article
    first_context = counts["contexts"] - same_context
    counts["articles"] = first_article + shard.articles
    contexts = _shifted(shard.tables["contexts"], context_id=first_context, article=first_article)
    writer.add_contexts(contexts.slice(same_context))
    questions = _shifted(shard.tables["questions"], context_id=first_context)
    writer.add_questions(questions, shard.tables["alignment"])


def _shifted(batch: Any, **first: int) -> Any:
    """A record batch whose columns are numbered from `first` instead of 0."""
    shifted = {
        name: pc.add(batch.column(name), pa.scalar(number, pa.int32()))
        for name, number in first.items()
    }
    return with_columns(batch, shifted)
