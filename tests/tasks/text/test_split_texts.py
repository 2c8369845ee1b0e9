"""The tokens of splits, and the counts of their forms."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.text import split_texts
from tasks.text.split_texts import (
    TOKENS,
    count_batch,
    distinct_forms,
    merge_counts,
    read_shards,
    sum_counts,
    token_texts,
)
from tests.factories.splits import ingest

Row = tuple[str, list[tuple[int, int]]]


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """A text and some ordered, non-empty spans of its characters."""
    text = draw(st.text(max_size=20))
    borders = sorted(draw(st.sets(st.integers(0, len(text)))))
    pairs = zip(borders[::2], borders[1::2], strict=False)
    return text, [(start, end) for start, end in pairs]


def batch_of(data: list[Row]) -> pa.RecordBatch:
    offsets = pa.list_(pa.int32())
    return pa.record_batch(
        {
            "text": pa.array([text for text, _ in data], pa.string()),
            "token_starts": pa.array([[s for s, _ in spans] for _, spans in data], offsets),
            "token_ends": pa.array([[e for _, e in spans] for _, spans in data], offsets),
        }
    )


def sliced(data: list[Row]) -> list[str]:
    return [text[start:end] for text, spans in data for start, end in spans]


@given(st.lists(rows(), max_size=6), st.integers(0, 6))
@settings(deadline=None)
def test_token_texts_slice_by_code_points(data: list[Row], skipped: int) -> None:
    batch = batch_of(data).slice(min(skipped, len(data)))
    assert token_texts(batch, "text").to_pylist() == sliced(data[skipped:])


@given(st.lists(rows(), max_size=8), st.sets(st.integers(0, 8)), st.integers(0, 8))
@settings(deadline=None)
def test_counts_do_not_depend_on_partitioning(data: list[Row], cuts: set[int], split: int) -> None:
    borders = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    parts = [count_batch(batch_of(data[start:end]), "text") for start, end in pairwise(borders)]
    whole = merge_counts([count_batch(batch_of(data), "text")])
    assert merge_counts(parts).equals(whole)
    assert merge_counts([merge_counts(parts[:split]), merge_counts(parts[split:])]).equals(whole)
    counted = dict(zip(whole["form"].to_pylist(), whole["count"].to_pylist(), strict=True))
    assert counted == Counter(sliced(data))


def test_context_is_counted_once_for_all_questions(tmp_path: Path) -> None:
    split = ingest(tmp_path / "split", ("An owl", ["Which owl", "Which one"]))
    assert distinct_forms([split]).to_pydict() == {
        "form": ["An", "Which", "one", "owl"],
        "count": [1, 2, 1, 2],
    }


def test_incremental_sum_equals_the_total(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [
        count_batch(batch_of([(f"a {word} {word}", [(0, 1), (2, 4), (5, 7)])]), "text")
        for word in ("be", "by", "be", "do", "by", "be")
    ]
    whole = merge_counts(tables)
    assert whole.to_pydict() == {"form": ["a", "be", "by", "do"], "count": [6, 6, 4, 2]}
    for rows in (0, 1, 3, 100):
        monkeypatch.setattr(split_texts, "MERGE_ROWS", rows)
        assert sum_counts(iter(tables)).equals(whole)


def test_counts_do_not_depend_on_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paragraphs = [(f"The owl {n} sat at {n % 7}.", [f"Who sat at {n}?"]) for n in range(60)]
    split = ingest(tmp_path / "split", *paragraphs)
    for name in split_texts.TEXT_COLUMNS:
        table = pq.read_table(split / name)
        pq.write_table(table, split / name, row_group_size=8)
    whole = distinct_forms([split])
    monkeypatch.setattr(split_texts, "SHARD_BYTES", 1000)
    shards = list(read_shards(split / "contexts.parquet", ["text", *TOKENS]))
    assert len(shards) == 4 and sum(batch.num_rows for shard in shards for batch in shard) == 60
    assert distinct_forms([split]).equals(whole)


def test_no_splits_have_no_forms() -> None:
    assert distinct_forms([]).to_pydict() == {"form": [], "count": []}
