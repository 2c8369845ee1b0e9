"""Counts word co-occurrences for GloVe, in bounded memory.

A pair of words at distance d counts 1/d in either order (Pennington et al., 2014, section 4.2).
Words outside the vocabulary are removed before distances are measured, as in the authors' code.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
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
    runs: list[Path] = []
    done = 0
    with ProgressReporter("counting", words, "words") as progress:
        for ids in row_blocks(corpus / "corpus.txt", vocabulary):
            for keys, sums in _sorted_runs(ids, window, square, size, capacity):
                runs.append(scratch / f"run-{len(runs)}.npy")
                np.save(runs[-1], np.stack([keys, sums.view(np.int64)]))
            done += int(np.count_nonzero(ids != END_OF_LINE))
            progress.report(done)
    if runs:
        yield from _merged(runs, capacity)
    yield from _runs_of_square(square, size, capacity)


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


def _spilled(file: Path) -> Any:
    """A run on disk, memory-mapped: an array (2, n) of int64, its keys and the bits of its sums.

    The file stays open as long as the array is referenced, and there may be thousands of runs.
    """
    return np.load(file, mmap_mode="r")


def _merged(runs: list[Path], capacity: int) -> Iterator[SortedRun]:
    """Merge runs into runs with disjoint, ascending keys, from about `capacity` entries each."""
    lengths = [_spilled(run).shape[1] for run in runs]
    total = sum(lengths)
    parts = -(-total // capacity)
    step = max(total // (64 * parts), 1)
    sample = np.sort(np.concatenate([np.array(_spilled(run)[0, ::step]) for run in runs]))
    borders = np.unique(sample[[len(sample) * part // parts for part in range(1, parts)]])
    cuts = [np.searchsorted(_spilled(run)[0], borders) for run in runs]
    for starts, stops in pairwise(np.column_stack([np.zeros_like(lengths), cuts, lengths]).T):
        if (stops > starts).any():
            yield _merge_parts(runs, starts.tolist(), stops.tolist())


def _merge_parts(runs: list[Path], starts: list[int], stops: list[int]) -> SortedRun:
    """One run from a part of each run: its entries from start to stop."""
    parts = [
        np.array(_spilled(run)[:, start:stop])
        for run, start, stop in zip(runs, starts, stops, strict=True)
    ]
    keys, sums = np.concatenate(parts, axis=1)
    return _summed(keys, sums.view(np.float64))


def _runs_of_square(square: Sums, size: int, capacity: int) -> Iterator[SortedRun]:
    """Yield the non-zero pairs of `square` as runs of some rows and about `capacity` pairs."""
    step = max(capacity // max(len(square), 1), 1)
    for first in range(0, len(square), step):
        rows, columns = np.nonzero(square[first : first + step])
        yield (first + rows) * size + columns, square[first + rows, columns]
