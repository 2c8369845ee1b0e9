"""Counts word co-occurrences for GloVe, in bounded memory.

A pair of words at distance d counts 1/d in either order (Pennington et al., 2014, section 4.2).
Words outside the vocabulary are removed before distances are measured, as in the authors' code.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from infra.reporting.progress_reporter import ProgressReporter

Keys = npt.NDArray[np.int64]
Sums = npt.NDArray[np.float64]
SortedRun = tuple[Keys, Sums]  # distinct sorted keys, and the sum of each
Ids = npt.NDArray[np.int32]

END_OF_LINE = -1
SUM = np.dtype([("key", "<i8"), ("sum", "<f8")])
# Peak memory per pair while a run is sorted: key, weight, sort order, sorted copies, and the run
# yielded before.
BYTES_PER_PAIR = 96


def count_pairs(
    corpus: Path, words: int, vocabulary: Mapping[str, int], window: int, memory: int, scratch: Path
) -> Iterator[SortedRun]:
    """Yield the co-occurrence counts of a prepared corpus, as runs with disjoint keys.

    A key is i·V + j, for vocabulary rows i <= j and vocabulary size V. The counts are symmetric, so
    each pair occurs once. A pair of a word with itself counts in both directions. `words` is the
    corpus length in tokens. `memory` is in bytes; runs beyond it spill to the folder `scratch`.
    """
    size = len(vocabulary)
    # The dense square of the most frequent words' pairs takes 1/4 of the memory; it needs no sort.
    side = min(size, int((memory / 4 / 8) ** 0.5))
    square = np.zeros((side, side))
    capacity = max((memory - square.nbytes) // BYTES_PER_PAIR, 1 << 12)
    # Each part has the pairs of some keys, and at most as many as `memory` allows.
    parts = 1 + words * window * BYTES_PER_PAIR // memory
    files = [scratch / f"part-{part}.bin" for part in range(parts)]
    done = 0
    with ProgressReporter("counting", words, "words") as progress:
        for ids in row_blocks(corpus / "corpus.txt", vocabulary):
            for run in _sorted_runs(ids, window, square, size, capacity):
                _append(run, files)
            done += int(np.count_nonzero(ids != END_OF_LINE))
            progress.report(done)
    for file in filter(Path.exists, files):
        pairs = np.fromfile(file, SUM)
        yield _summed(pairs["key"], pairs["sum"])
    yield from _runs_of_square(square, size, capacity)


def _append(run: SortedRun, files: list[Path]) -> None:
    """Append the pairs of a run to the files of their keys."""
    pairs = np.empty(len(run[0]), SUM)
    pairs["key"], pairs["sum"] = run
    part = pairs["key"] % len(files)
    order = np.argsort(part, kind="stable")
    bounds = np.searchsorted(part[order], np.arange(1, len(files)))
    for file, own in zip(files, np.split(pairs[order], bounds), strict=True):
        with file.open("ab") as out:
            own.tofile(out)


def row_blocks(file: Path, vocabulary: Mapping[str, int]) -> Iterator[Ids]:
    """Yield vocabulary rows for blocks of whole lines, -1 between lines; OOV words are omitted."""
    row_of = {word.encode(): row for word, row in vocabulary.items()} | {b"\n": END_OF_LINE}
    with file.open("rb") as corpus:
        while block := corpus.read(8 << 20):
            yield _rows_of(block + corpus.readline(), row_of)


def _rows_of(lines: bytes, row_of: Mapping[bytes, int]) -> Ids:
    tokens = lines.replace(b"\n", b" \n ").split(b" ")
    return np.fromiter((row_of[token] for token in tokens if token in row_of), np.int32)


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


def _runs_of_square(square: Sums, size: int, capacity: int) -> Iterator[SortedRun]:
    """Yield the non-zero pairs of `square` as runs of some rows and about `capacity` pairs."""
    step = max(capacity // max(len(square), 1), 1)
    for first in range(0, len(square), step):
        rows, columns = np.nonzero(square[first : first + step])
        yield (first + rows) * size + columns, square[first + rows, columns]
