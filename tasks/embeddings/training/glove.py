"""GloVe: vectors whose dot products fit the logarithms of co-occurrence counts.

Pennington, Socher and Manning (2014), "GloVe: Global vectors for word representation", eq. 8 and 9.
Adagrad follows the authors' code (glove.c), as the paper gives few details. Gradients are clipped
at ±100. The accumulators start at 1 and sum the squares of learning rate times gradient. Unlike
glove.c, each pair is directly followed by its mirror, and each epoch has a different order.
"""

import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numba import njit

from infra.errors import UserError
from infra.reporting.progress_reporter import ProgressReporter
from models.arrays import Float32Array
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.embeddings.training.cooccurrence import BYTES_PER_PAIR, SortedRun, count_pairs
from tasks.embeddings.training.corpus import read_vocabulary

LEARNING_RATE = 0.05
MAX_GRADIENT = np.float32(100.0)
PAIR = np.dtype([("i", "<i4"), ("j", "<i4"), ("count", "<f4")])


def train_glove(
    corpus: Path,
    facts: dict[str, Any],
    parameters: EmbeddingParameters,
    start: WordSet | None,
    scratch: Path,
) -> tuple[WordSet, dict[str, Any]]:
    """Vectors w + w̃ of a prepared corpus's words, most frequent first, and facts of the training.

    `facts` are those of `prepare_corpus`. With `start`, half of a word's vector initialises both w
    and w̃. The counts are kept in a temporary folder in `scratch` during training.

    Raises:
        UserError: fewer than two words occur often enough, or no two of them co-occur.
    """
    counts = read_vocabulary(corpus, parameters.min_count)
    rows = {word: row for row, word in enumerate(counts)}
    rng = np.random.default_rng(parameters.seed)
    memory = parameters.memory_mb << 20
    with tempfile.TemporaryDirectory(prefix=".counts-", dir=scratch) as folder:
        start_counting = time.perf_counter()
        window = parameters.window_size
        runs = count_pairs(corpus, facts["words"], rows, window, memory, Path(folder))
        parts = 1 + facts["words"] * window * BYTES_PER_PAIR // memory
        shuffled = scatter(runs, len(rows), parts, Path(folder), rng)
        pairs = sum(file.stat().st_size for file in shuffled) // PAIR.itemsize
        if not pairs:
            raise UserError(
                f"No two words with at least {parameters.min_count} occurrences co-occur within a "
                f"window of {window}. Lower min_count, or add more text."
            )
        counting_seconds = time.perf_counter() - start_counting
        state = State.draw(len(rows), parameters.dimension, rng)
        if start is not None:
            state.initialise_from(list(counts), start)
        losses, seconds = fit(state, shuffled, pairs, parameters, rng)
    return WordSet(list(counts), state.words[:, :-1] + state.contexts[:, :-1]), {
        "pairs": pairs,
        "words_counted_per_second": round(facts["words"] / counting_seconds),
        "losses": losses,
        "pairs_per_second": round(2 * pairs * parameters.epoch_count / seconds),
    }


def scatter(
    runs: Iterable[SortedRun], size: int, parts: int, folder: Path, rng: np.random.Generator
) -> list[Path]:
    """Distribute the pairs randomly over files, so that one file at a time can be shuffled.

    Each pair is in one file. `size` is the vocabulary size, by which a key is decoded. Returns the
    files.
    """
    files = [folder / f"pairs-{part}.bin" for part in range(parts)]
    for keys, sums in runs:
        pairs = np.empty(len(keys), PAIR)
        pairs["i"], pairs["j"], pairs["count"] = keys // size, keys % size, sums
        place = rng.integers(parts, size=len(pairs))
        for part, file in enumerate(files):
            with file.open("ab") as out:
                pairs[place == part].tofile(out)
    return files


@dataclass
class State:
    """Weights, and Adagrad's sums of squares. The last column of `words` and `contexts` is the
    bias."""

    words: Float32Array  # (V, d + 1)
    contexts: Float32Array  # (V, d + 1)
    word_squares: Float32Array
    context_squares: Float32Array

    @classmethod
    def draw(cls, size: int, dimension: int, rng: np.random.Generator) -> Self:
        """Initial weights between -0.5/d and 0.5/d, sums of squares 1, as in the authors' code."""
        shape = (size, dimension + 1)
        words, contexts = (
            (rng.random(shape, np.float32) - np.float32(0.5)) / np.float32(dimension)
            for _ in range(2)
        )
        return cls(words, contexts, np.ones(shape, np.float32), np.ones(shape, np.float32))

    def initialise_from(self, words: Sequence[str], start: WordSet) -> None:
        """Initialise the words that are in `start` with half of their vectors."""
        known = [(row, start.rows[w]) for row, w in enumerate(words) if w in start.rows]
        for row, start_row in known:
            self.words[row, :-1] = self.contexts[row, :-1] = start.vectors[start_row] / 2


def fit(
    state: State,
    files: Sequence[Path],
    pairs: int,
    parameters: EmbeddingParameters,
    rng: np.random.Generator,
) -> tuple[list[float], float]:
    """Train in place on all pairs of the files. Returns the loss of each epoch, and the seconds.

    The loss is what glove.c prints as cost: the mean of ½·f(X_ij)·difference² before each step. A
    pair and its mirror are two steps. Threads update the same weights without locks (Hogwild), so
    only training with one thread is reproducible.
    """
    losses: list[float] = []
    done = 0
    with (
        ProgressReporter("glove", 2 * pairs * parameters.epoch_count, "pairs") as progress,
        ThreadPoolExecutor(parameters.threads) as pool,
    ):
        for epoch in range(1, parameters.epoch_count + 1):
            total, records = 0.0, 0
            for part in rng.permutation(len(files)):
                part_pairs = np.fromfile(files[part], PAIR)
                rng.shuffle(part_pairs)
                shares = np.array_split(part_pairs, parameters.threads)
                total += sum(pool.map(lambda share: step(state, share, parameters), shares))
                mirrored = int(np.count_nonzero(part_pairs["i"] != part_pairs["j"]))
                records += len(part_pairs) + mirrored
                done += 2 * len(part_pairs)
                progress.report(done, f"epoch {epoch} of {parameters.epoch_count}")
            losses.append(total / records)
            progress.report(
                done,
                f"epoch {epoch} of {parameters.epoch_count}, loss {losses[-1]:.4f}",
                always=True,
            )
    return losses, progress.seconds


def step(state: State, pairs: npt.NDArray[np.void], parameters: EmbeddingParameters) -> float:
    """Train in place on some pairs, in their order. Returns the sum of their losses."""
    return float(
        descend(
            np.ascontiguousarray(pairs["i"]),
            np.ascontiguousarray(pairs["j"]),
            np.log(pairs["count"]),
            np.minimum(1.0, (pairs["count"] / parameters.x_max) ** parameters.alpha).astype("f4"),
            state.words,
            state.contexts,
            state.word_squares,
            state.context_squares,
            np.float32(LEARNING_RATE),
        )
    )


@njit(cache=True, nogil=True, fastmath=True)
def descend(  # type: ignore[no-untyped-def]
    rows, columns, logs, weights, words, contexts, word_squares, context_squares, rate
):
    """Take an Adagrad step for each pair and its mirror. Returns the sum of the losses before them.

    The loss is ½·f(X_ij)·(w_i·w̃_j + b_i + b̃_j - log X_ij)², half of eq. 8, as in glove.c.
    """
    loss = 0.0
    for k in range(len(rows)):
        i, j = rows[k], columns[k]
        for mirrored in range(1 if i == j else 2):
            a, b = (j, i) if mirrored else (i, j)
            loss += _pair(
                words[a],
                contexts[b],
                word_squares[a],
                context_squares[b],
                logs[k],
                weights[k],
                rate,
            )
    return loss


@njit(cache=True, nogil=True, fastmath=True)
def _pair(w, c, w_squares, c_squares, log, weight, rate):  # type: ignore[no-untyped-def]
    last = len(w) - 1
    difference = w[last] + c[last] - log
    for k in range(last):
        difference += w[k] * c[k]
    pull = weight * difference
    for k in range(last):
        step_w, step_c = rate * _clip(pull * c[k]), rate * _clip(pull * w[k])
        w[k] -= step_w / np.sqrt(w_squares[k])
        c[k] -= step_c / np.sqrt(c_squares[k])
        w_squares[k] += step_w * step_w
        c_squares[k] += step_c * step_c
    step_bias = rate * _clip(pull)
    w[last] -= step_bias / np.sqrt(w_squares[last])
    c[last] -= step_bias / np.sqrt(c_squares[last])
    w_squares[last] += step_bias * step_bias
    c_squares[last] += step_bias * step_bias
    return pull * difference / 2


@njit(cache=True, nogil=True, fastmath=True)
def _clip(gradient):  # type: ignore[no-untyped-def]
    return min(max(gradient, -MAX_GRADIENT), MAX_GRADIENT)
