"""Counts word co-occurrences for GloVe, in bounded memory.

A pair of words at distance d counts 1/d in either order (Pennington et al., 2014, section 4.2).
Words outside the vocabulary are removed before distances are measured, as in the authors' code.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numba import njit

from tasks.embeddings.training.progress import Progress

Keys = npt.NDArray[np.int64]
Sums = npt.NDArray[np.float64]
SortedRun = tuple[Keys, Sums]  # distinct sorted keys, and the sum of each
Ids = npt.NDArray[np.int32]

BLOCK_BYTES = 8 << 20
END_OF_LINE = -1
BYTES_PER_PAIR = 96
"""Peak memory per pair while a run is sorted: key, weight, sort order, sorted copies, and the run
yielded before."""
DENSE_SHARE = 4
"""The dense square of the most frequent words' pairs takes 1/4 of the memory; it needs no sort."""


def count_pairs(
    corpus: Path, words: int, vocabulary: Mapping[str, int], window: int, memory: int, scratch: Path
) -> Iterator[SortedRun]:
    """Yield the co-occurrence counts of a prepared corpus, as runs with disjoint keys.

    A key is i·V + j, for vocabulary rows i <= j and vocabulary size V. The counts are symmetric, so
    each pair occurs once. A pair of a word with itself counts in both directions. `words` is the
    corpus length in tokens. `memory` is in bytes; runs beyond it spill to the folder `scratch`.
    """
    size = len(vocabulary)
    side = min(size, int((memory / DENSE_SHARE / 8) ** 0.5))
    square = np.zeros((side, side))
    capacity = max((memory - square.nbytes) // BYTES_PER_PAIR, 1 << 12)
    runs: list[Spilled] = []
    progress = Progress("counting", words, "words")
    done = 0
    for ids in _blocks(corpus / "corpus.txt", vocabulary):
        for run in _sorted_runs(ids, window, square, size, capacity):
            runs.append(Spilled.write(run, scratch, len(runs)))
        done += int(np.count_nonzero(ids != END_OF_LINE))
        progress.report(done)
    yield from _merged(runs, capacity)
    yield from _runs_of_square(square, size, capacity)


def _blocks(file: Path, vocabulary: Mapping[str, int]) -> Iterator[Ids]:
    """Yield vocabulary rows for blocks of whole lines, -1 between lines; OOV words are omitted."""
    row_of = {word.encode(): row for word, row in vocabulary.items()}
    row_of[b"\n"] = END_OF_LINE
    with file.open("rb") as corpus:
        while block := corpus.read(BLOCK_BYTES):
            yield _rows_of(block + corpus.readline(), row_of)


def _rows_of(lines: bytes, row_of: Mapping[bytes, int]) -> Ids:
    tokens = lines.replace(b"\n", b" \n ").split(b" ")
    return np.fromiter((row_of[token] for token in tokens if token in row_of), np.int32, count=-1)


def _sorted_runs(
    ids: Ids, window: int, square: Sums, size: int, capacity: int
) -> Iterator[SortedRun]:
    """Add frequent words' pairs to `square`; yield the others as runs of up to `capacity` pairs."""
    keys = np.empty(capacity, np.int64)
    weights = np.empty(capacity, np.float32)
    start = 0
    while start < len(ids):
        start, count = pairs_of(ids, start, window, square, size, keys, weights)
        if count:
            yield _summed(keys[:count], weights[:count])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def pairs_of(
    ids: Ids,
    start: int,
    window: int,
    square: Sums,
    size: int,
    keys: Keys,
    weights: npt.NDArray[np.float32],
) -> tuple[int, int]:
    """Collect pairs from position `start` on, until `keys` may overflow.

    Returns the position to continue at, and the number of pairs written to `keys` and `weights`.
    """
    count = 0
    for position in range(start, len(ids)):
        if len(keys) - count < window:
            return position, count
        word = ids[position]
        if word < 0:
            continue
        for distance in range(1, min(window, position) + 1):
            other = ids[position - distance]
            if other < 0:
                break
            low, high = min(word, other), max(word, other)
            weight = 2.0 / distance if low == high else 1.0 / distance
            if high < len(square):
                square[low, high] += weight
            else:
                keys[count] = np.int64(low) * size + high
                weights[count] = weight
                count += 1
    return len(ids), count


def _summed(keys: Keys, weights: Any) -> SortedRun:
    """The distinct keys, sorted, with the sum of the weights of each."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[first], np.add.reduceat(weights[order].astype(np.float64, copy=False), first)


@dataclass(frozen=True)
class Spilled:
    """A run on disk. There may be thousands of runs, so files are open only while they are read."""

    keys: Path
    sums: Path
    length: int

    @classmethod
    def write(cls, run: SortedRun, folder: Path, number: int) -> Self:
        """Write a run to `folder`; `number` must be unique there."""
        spilled = cls(folder / f"keys-{number}.bin", folder / f"sums-{number}.bin", len(run[0]))
        for file, values in zip((spilled.keys, spilled.sums), run, strict=True):
            values.tofile(file)
        return spilled

    def mapped_keys(self) -> Any:
        """All keys, memory-mapped; the file stays open as long as the array is referenced."""
        return np.memmap(self.keys, np.int64, "r")

    def read(self, start: int, keys: Keys, sums: Sums) -> None:
        """Fill both arrays with the entries from `start` on."""
        for file, values in ((self.keys, keys), (self.sums, sums)):
            values[:] = np.fromfile(file, values.dtype, len(values), offset=values.itemsize * start)


def _merged(runs: list[Spilled], capacity: int) -> Iterator[SortedRun]:
    """Merge runs into runs with disjoint, ascending keys, from about `capacity` entries each."""
    if not runs:
        return
    total = sum(run.length for run in runs)
    parts = -(-total // capacity)
    step = max(total // (64 * parts), 1)
    sample = np.sort(np.concatenate([np.array(run.mapped_keys()[::step]) for run in runs]))
    borders = np.unique(sample[[len(sample) * part // parts for part in range(1, parts)]])
    cuts = [np.searchsorted(run.mapped_keys(), borders).tolist() for run in runs]
    ends = np.array([[0, *cut, run.length] for cut, run in zip(cuts, runs, strict=True)])
    for starts, stops in pairwise(ends.T):
        if (stops > starts).any():
            yield _merge_parts(runs, starts.tolist(), (stops - starts).tolist())


def _merge_parts(runs: list[Spilled], starts: list[int], lengths: list[int]) -> SortedRun:
    """One run from a part of each run: `lengths` entries from `starts` on."""
    keys, sums = np.empty(sum(lengths), np.int64), np.empty(sum(lengths), np.float64)
    filled = 0
    for run, start, length in zip(runs, starts, lengths, strict=True):
        part = slice(filled, filled + length)
        run.read(start, keys[part], sums[part])
        filled += length
    return _summed(keys, sums)


def _runs_of_square(square: Sums, size: int, capacity: int) -> Iterator[SortedRun]:
    """Yield the non-zero pairs of `square` as runs of some rows and about `capacity` pairs."""
    step = max(capacity // max(len(square), 1), 1)
    for first in range(0, len(square), step):
        rows, columns = np.nonzero(square[first : first + step])
        yield (first + rows) * size + columns, square[first + rows, columns]
