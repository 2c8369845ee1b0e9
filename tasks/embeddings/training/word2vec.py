"""Trains CBOW, skip-gram and fastText with gensim, which reads the corpus once per epoch.

Mikolov et al. (2013), "Efficient estimation of word representations in vector space";
Bojanowski et al. (2017), "Enriching word vectors with subword information".
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from infra.errors import UserError
from infra.reporting.progress_reporter import ProgressReporter
from models.arrays import FloatArray, IntArray
from tasks.embeddings.formats.word_vectors import Subwords, WordSet, ngrams_of, own_row
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.embeddings.training.corpus import read_paragraphs, read_vocabulary

# gensim is imported locally, because it takes seconds to load.

WINDOWS = 4000
PARAGRAPHS_PER_REPORT = 100
MAX_BUCKETS = 2_000_000  # fastText's default


def train_by_gensim(
    corpus: Path, facts: dict[str, Any], parameters: EmbeddingParameters, start: WordSet | None
) -> tuple[WordSet, dict[str, Any]]:
    """Vectors of a prepared corpus's words, most frequent first, and facts of the training.

    `facts` are those of `prepare_corpus`. The vectors of `start` initialise the words of the
    corpus. The losses, one per epoch, are those of a sample of the corpus.

    Raises:
        UserError: fewer than two words occur often enough, or no two of them share a line.
    """
    counts = read_vocabulary(corpus, parameters.min_count)
    parameters = with_buckets(counts, parameters, start)
    model = make_model(parameters)
    model.build_vocab_from_freq(counts, corpus_count=facts["paragraphs"])
    if start is not None:
        _initialise_from(model, start)
    loss = SampledLoss(corpus, facts["paragraphs"], model, parameters)
    words = facts["words"] * parameters.epoch_count
    with ProgressReporter(parameters.method, words, "words") as progress:
        epochs = Epochs(corpus, facts["words"], loss, progress)
        model.train(
            corpus_iterable=epochs,
            total_words=facts["words"],
            epochs=parameters.epoch_count,
            callbacks=[epochs],
        )
    subwords = (
        Subwords(model.wv.vectors_ngrams, parameters.min_ngram, parameters.max_ngram)
        if parameters.method == "fasttext"
        else None
    )
    return WordSet(list(model.wv.index_to_key), model.wv.vectors, subwords), {
        "words_per_second": round(words / progress.seconds),
        "losses": epochs.losses,
    }


def with_buckets(
    words: Iterable[str], parameters: EmbeddingParameters, start: WordSet | None
) -> EmbeddingParameters:
    """The parameters; for fastText, with the chosen number of buckets unless one is set."""
    if parameters.method != "fasttext" or parameters.buckets is not None:
        return parameters
    return parameters.model_copy(update={"buckets": choose_buckets(words, parameters, start)})


def choose_buckets(
    words: Iterable[str], parameters: EmbeddingParameters, start: WordSet | None
) -> int:
    """The number of buckets of a warm start's n-grams, else one in proportion to the vocabulary.

    That is the power of two that is not below the number of distinct n-grams, so that few of them
    share a bucket, at most MAX_BUCKETS.
    """
    if start is not None and start.subwords is not None:
        return len(start.subwords.ngrams)
    distinct: set[str] = set()
    for word in words:
        distinct.update(ngrams_of(word, parameters.min_ngram, parameters.max_ngram))
        if len(distinct) >= MAX_BUCKETS:
            return MAX_BUCKETS
    return min(1 << max(len(distinct) - 1, 0).bit_length(), MAX_BUCKETS)


def make_model(parameters: EmbeddingParameters) -> Any:
    """A gensim model without a vocabulary; for fastText, `buckets` must be set.

    Learning rates and subsampling thresholds are those of word2vec.c and fastText, because gensim
    uses skip-gram's as defaults for all methods.
    """
    from gensim.models import FastText, Word2Vec

    common = {
        "vector_size": parameters.dimension,
        "window": parameters.window_size,
        "min_count": parameters.min_count,
        "negative": parameters.negatives,
        "alpha": 0.025 if parameters.method == "skipgram" else 0.05,
        "sample": 1e-4 if parameters.method == "fasttext" else 1e-3,
        "sg": int(parameters.method != "cbow"),
        "seed": parameters.seed,
        "workers": parameters.threads,
        "epochs": parameters.epoch_count,
    }
    if parameters.method != "fasttext":
        return Word2Vec(**common)
    return FastText(
        min_n=parameters.min_ngram,
        max_n=parameters.max_ngram,
        bucket=parameters.buckets,
        **common,
    )


def _initialise_from(model: Any, start: WordSet) -> None:
    """Initialise words, and for fastText n-grams, from `start`; its n-grams must be compatible."""
    shared = [(i, start.rows[w]) for i, w in enumerate(model.wv.index_to_key) if w in start.rows]
    if not hasattr(model.wv, "vectors_ngrams"):
        rows, start_rows = np.array(shared, np.int64).reshape(-1, 2).T
        model.wv.vectors[rows] = start.vectors[start_rows]
        return
    if start.subwords is not None:
        model.wv.vectors_ngrams[:] = start.subwords.ngrams
    for i, row in shared:
        ngrams = model.wv.vectors_ngrams[model.wv.buckets_word[i]]
        model.wv.vectors_vocab[i] = own_row(start.vectors[row], ngrams)


class Epochs:
    """The paragraphs of a prepared corpus, which gensim reads once per epoch, and as gensim's
    callback the loss after each epoch. Reports both as progress."""

    def __init__(
        self, corpus: Path, words: int, loss: Callable[[Any], float], progress: ProgressReporter
    ) -> None:
        self.corpus, self.words, self.loss, self.progress = corpus, words, loss, progress
        self.losses: list[float] = []
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[list[str]]:
        read = len(self.losses) * self.words
        try:
            for number, paragraph in enumerate(read_paragraphs(self.corpus)):
                if number % PARAGRAPHS_PER_REPORT == 0:
                    self.progress.report(read)
                read += len(paragraph)
                yield paragraph
        except Exception as error:  # raised in gensim's thread, it would let gensim wait for ever
            self.error = error

    def on_epoch_begin(self, model: Any) -> None:
        """Do nothing; gensim requires the method."""

    on_train_begin = on_train_end = on_epoch_begin

    def on_epoch_end(self, model: Any) -> None:
        """Record and report the epoch's loss. Raises the error that ended the epoch, if any."""
        if self.error is not None:
            raise self.error
        self.losses.append(self.loss(model))
        self.progress.report(
            len(self.losses) * self.words,
            f"epoch {len(self.losses)} of {model.epochs}, loss {self.losses[-1]:.3f}",
            always=True,
        )


class SampledLoss:
    """The loss of a model on a fixed sample of windows from the whole corpus, each with its noise
    words.

    gensim's own loss is a float32 sum, which is wrong beyond some ten thousand words. It also costs
    5 % of the training time, and is missing for fastText.

    Raises:
        UserError: no sampled line has two of the model's words.
    """

    def __init__(
        self, corpus: Path, paragraphs: int, model: Any, parameters: EmbeddingParameters
    ) -> None:
        random = np.random.default_rng(parameters.seed)
        sample = islice(read_paragraphs(corpus), 0, None, max(paragraphs // WINDOWS, 1))
        windows = list(_windows(sample, model.wv.key_to_index, parameters, random))
        if not windows:
            raise UserError(
                f"No sampled line has two words with at least {parameters.min_count} occurrences. "
                "Use running text with one paragraph per line, or lower min_count."
            )
        frequencies = model.wv.expandos["count"].astype(np.float64) ** 0.75  # as in training
        noise = random.choice(
            len(model.wv),
            (len(windows), parameters.negatives),
            p=frequencies / frequencies.sum(),
        )
        # The rows of each window's context, and of its output vectors; the target word comes first.
        self.windows = [
            (context, np.array([target, *words[words != target]]))
            for (target, context), words in zip(windows, noise, strict=True)
        ]

    def __call__(self, model: Any) -> float:
        """The mean of −log σ(u·v) − Σ log σ(−uₙ·v) over the windows and their noise words n.

        Noise words equal to the target word are excluded, as in training. Source: Mikolov et al.
        (2013), "Distributed representations of words and phrases", equation 4.
        """
        return float(np.mean([_window_loss(model, *window) for window in self.windows]))


def _window_loss(model: Any, context: list[int], outputs: IntArray) -> float:
    hidden = np.mean([_input_vector(model.wv, row) for row in context], axis=0)
    scores = model.syn1neg[outputs] @ hidden
    scores[0] = -scores[0]
    return float(np.logaddexp(0, scores).sum())


def _windows(
    sample: Iterable[list[str]],
    rows: dict[str, int],
    parameters: EmbeddingParameters,
    random: np.random.Generator,
) -> Iterator[tuple[int, list[int]]]:
    """Yield the rows of a random word and of its context for each paragraph of the sample.

    For methods other than CBOW, which train on one context word at a time, the context is a single
    random word.
    """
    for paragraph in sample:
        words = [rows[word] for word in paragraph if word in rows]
        if len(words) < 2:
            continue
        position = int(random.integers(len(words)))
        reach = int(random.integers(parameters.window_size)) + 1
        before = words[max(position - reach, 0) : position]
        context = before + words[position + 1 : position + 1 + reach]
        yield words[position], context if parameters.method == "cbow" else [random.choice(context)]


def _input_vector(vectors: Any, row: int) -> FloatArray:
    """A word's current input vector; fastText's are composed from the rows that it trains."""
    if not hasattr(vectors, "vectors_ngrams"):
        return np.asarray(vectors.vectors[row])
    buckets = vectors.buckets_word[row]
    total = vectors.vectors_vocab[row] + vectors.vectors_ngrams[buckets].sum(axis=0)
    return np.asarray(total / (len(buckets) + 1))
