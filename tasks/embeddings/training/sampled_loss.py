"""The loss of CBOW, skip-gram and fastText, computed on a fixed sample of the corpus.

gensim's own loss is a float32 sum, which is wrong beyond some ten thousand words. It also costs 5 %
of the training time, and is missing for fastText.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from infra.errors import UserError
from models.arrays import FloatArray, IntArray
from tasks.embeddings.training.config import EmbeddingParameters

WINDOWS = 4000
NOISE_POWER = 0.75


class SampledLoss:
    """A fixed sample of windows from the whole corpus, each with its noise words.

    Raises:
        UserError: no sampled line has two of the model's words.
    """

    def __init__(self, file: Path, model: Any, parameters: EmbeddingParameters) -> None:
        random = np.random.default_rng(parameters.seed)
        windows = list(_windows(file, model.wv.key_to_index, parameters, random))
        if not windows:
            raise UserError(
                f"No sampled line has two words with at least {parameters.min_count} occurrences. "
                "Use running text with one paragraph per line, or lower min_count."
            )
        targets = np.array([target for target, _ in windows])
        noise = random.choice(
            len(model.wv), (len(windows), parameters.negatives), p=_noise_shares(model)
        )
        # Rows of the output vectors, (windows, 1 + negatives); the target word comes first.
        self.outputs = np.concatenate([targets[:, None], noise], axis=1)
        self.lengths = np.array([len(context) for _, context in windows])
        contexts = np.concatenate([context for _, context in windows])
        self.words, self.contexts = np.unique(contexts, return_inverse=True)

    def __call__(self, model: Any) -> float:
        """The mean of −log σ(u·v) − Σ log σ(−uₙ·v) over the windows and their noise words n.

        Noise words equal to the target word are excluded, as in training. Source: Mikolov et al.
        (2013), "Distributed representations of words and phrases", equation 4.
        """
        firsts = np.cumsum(self.lengths) - self.lengths
        sums = np.add.reduceat(_input_vectors(model, self.words)[self.contexts], firsts)
        hidden = sums / self.lengths[:, None]
        scores = np.einsum("wd,wnd->wn", hidden, model.syn1neg[self.outputs])
        losses = np.logaddexp(0, np.concatenate([-scores[:, :1], scores[:, 1:]], axis=1))
        losses[:, 1:][self.outputs[:, 1:] == self.outputs[:, :1]] = 0
        return float(losses.sum(axis=1).mean())


def _windows(
    file: Path, rows: dict[str, int], parameters: EmbeddingParameters, random: np.random.Generator
) -> Iterator[tuple[int, list[int]]]:
    """Yield the rows of a random word and of its context for each sampled line.

    For methods other than CBOW, which train on one context word at a time, the context is a single
    random word.
    """
    for line in _lines(file):
        words = [rows[word] for word in line.split() if word in rows]
        if len(words) < 2:
            continue
        position = int(random.integers(len(words)))
        reach = int(random.integers(parameters.window_size)) + 1
        before = words[max(position - reach, 0) : position]
        context = before + words[position + 1 : position + 1 + reach]
        yield words[position], context if parameters.method == "cbow" else [random.choice(context)]


def _lines(file: Path) -> Iterator[str]:
    """Yield the line after each of evenly spaced offsets in the file; a small file yields some
    lines more than once."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        for offset in range(0, size, max(size // WINDOWS, 1)):
            stream.seek(max(offset - 1, 0))
            if offset:
                stream.readline()  # skip to the start of the next line
            yield stream.readline().decode()


def _noise_shares(model: Any) -> FloatArray:
    counts = [model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key]
    shares = np.array(counts, np.float64) ** NOISE_POWER
    return np.asarray(shares / shares.sum())


def _input_vectors(model: Any, rows: IntArray) -> FloatArray:
    """The current input vectors; fastText's are composed from the rows that it trains."""
    if not hasattr(model.wv, "vectors_ngrams"):
        return np.asarray(model.wv.vectors[rows])
    return np.array([_composed(model.wv, row) for row in rows])


def _composed(vectors: Any, row: int) -> FloatArray:
    buckets = vectors.buckets_word[row]
    total = vectors.vectors_vocab[row] + vectors.vectors_ngrams[buckets].sum(axis=0)
    return np.asarray(total / (len(buckets) + 1))
