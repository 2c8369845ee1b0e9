"""Trains CBOW, skip-gram and fastText with gensim, which reads the corpus file without the GIL.

Mikolov et al. (2013), "Efficient estimation of word representations in vector space";
Bojanowski et al. (2017), "Enriching word vectors with subword information".
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from infra.errors import UserError
from infra.reporting.progress_reporter import ProgressReporter
from models.arrays import FloatArray, IntArray
from tasks.embeddings.formats.word_vectors import Subwords, WordSet, ngrams_of, own_row
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.embeddings.training.corpus import read_vocabulary

# gensim is imported locally, because it takes seconds to load.

WINDOWS = 4000
MAX_BUCKETS = 2_000_000  # fastText's default
# In each epoch, a thread of gensim reads its share of the corpus, and then up to 10,000 words more.
WORDS_PER_THREAD = 100_000
CHUNK_BYTES = 1 << 24


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
    threads = min(parameters.threads, max(1, facts["words"] // WORDS_PER_THREAD))
    model = make_model(parameters.model_copy(update={"workers": threads}))
    model.build_vocab_from_freq(counts, corpus_count=facts["paragraphs"])
    if start is not None:
        _initialise_from(model, start)
    file = corpus / "corpus.txt"
    model._do_train_epoch = reading_own_part(model, parts_of(file, threads))
    loss = SampledLoss(file, model, parameters)
    words = facts["words"] * parameters.epoch_count
    with ProgressReporter(parameters.method, words, "words") as progress:
        reading_progress = ReadingProgress(file, facts["words"], loss, progress)
        with reading_progress.polling():
            model.train(
                corpus_file=str(file),
                total_words=facts["words"],
                epochs=parameters.epoch_count,
                callbacks=[reading_progress],
            )
    subwords = (
        Subwords(model.wv.vectors_ngrams, parameters.min_ngram, parameters.max_ngram)
        if parameters.method == "fasttext"
        else None
    )
    return WordSet(list(model.wv.index_to_key), model.wv.vectors, subwords), {
        "words_per_second": round(words / progress.seconds),
        "losses": reading_progress.losses,
    }


class Part(NamedTuple):
    """What a file has between two positions: at least one line."""

    lines: int
    words: int


def parts_of(file: Path, count: int) -> list[Part]:
    """The parts of a corpus file that gensim's threads begin to read at, equally long in bytes."""
    size = file.stat().st_size
    bounds = [int(size / count * number) for number in range(count)] + [size]
    parts = []
    with file.open("rb") as stream:
        for begin, end in pairwise(bounds):
            stream.seek(begin)
            lines = spaces = 0
            while begin < end:
                content = np.frombuffer(stream.read(min(CHUNK_BYTES, end - begin)), np.uint8)
                lines += int(np.count_nonzero(content == ord("\n")))
                spaces += int(np.count_nonzero(content == ord(" ")))
                begin += len(content)
            parts.append(Part(max(lines, 1), lines + spaces))
    return parts


def reading_own_part(model: Any, parts: Sequence[Part]) -> Callable[..., tuple[int, int, int]]:
    """gensim's training of one thread in one epoch, which reads that thread's part to its end.

    gensim stops each thread after the average number of words, so it never reads the end of parts
    with more and shorter words. It also takes the words of one thread as the progress of all, so
    that the learning rate hardly falls within an epoch.
    """
    train = model._do_train_epoch

    def train_part(
        file: str, thread: int, *others: Any, total_examples: int, total_words: int, **named: Any
    ) -> tuple[int, int, int]:
        lines, words = parts[thread]
        # gensim divides the words by the number of threads, and the lines by nothing.
        result: tuple[int, int, int] = train(
            file,
            thread,
            *others,
            total_examples=lines,
            total_words=words * len(parts),
            **named,
        )
        return result

    return train_part


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
        for i, row in shared:
            model.wv.vectors[i] = start.vectors[row]
        return
    if start.subwords is not None:
        model.wv.vectors_ngrams[:] = start.subwords.ngrams
    for i, row in shared:
        ngrams = model.wv.vectors_ngrams[model.wv.buckets_word[i]]
        model.wv.vectors_vocab[i] = own_row(start.vectors[row], ngrams)


class ReadingProgress:
    """Reports the progress of gensim's training: as a callback after each epoch, and within an
    epoch from the read positions in the corpus file.

    gensim counts words only when a worker has read its whole share, so progress is estimated from
    the positions of the open corpus file. Only Linux and Windows report these.
    """

    def __init__(
        self, file: Path, words: int, loss: Callable[[Any], float], progress: ProgressReporter
    ) -> None:
        self.file, self.words, self.loss, self.progress = file, words, loss, progress
        self.losses: list[float] = []
        self.seen: dict[int, tuple[int, int]] = {}
        self.done = threading.Event()

    def on_epoch_begin(self, model: Any) -> None:
        """Do nothing; gensim requires the method."""

    on_train_begin = on_train_end = on_epoch_begin

    def on_epoch_end(self, model: Any) -> None:
        """Record and report the epoch's loss, and reset the read positions."""
        loss = self.loss(model)
        self.seen.clear()
        self.losses.append(loss)
        self.progress.report(
            len(self.losses) * self.words,
            f"epoch {len(self.losses)} of {model.epochs}, loss {loss:.3f}",
            always=True,
        )

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Poll the read positions every second during the block."""
        poller = threading.Thread(target=self._poll, daemon=True)
        poller.start()
        try:
            yield
        finally:
            self.done.set()
            poller.join()

    def _poll(self) -> None:
        while not self.done.wait(1.0):
            if share := self.share_read():
                self.progress.report((len(self.losses) + share) * self.words)

    def share_read(self) -> float:
        """Share of the corpus file that its readers have read so far, from 0 to 1."""
        for opened in psutil.Process().open_files():
            if opened.path == str(self.file.resolve()):
                position = getattr(opened, "position", 0)
                first, _ = self.seen.get(opened.fd, (position, position))
                self.seen[opened.fd] = first, max(position, first)
        read = sum(last - first for first, last in list(self.seen.values()))
        return float(min(read / self.file.stat().st_size, 1.0))


class SampledLoss:
    """The loss of a model on a fixed sample of windows from the whole corpus, each with its noise
    words.

    gensim's own loss is a float32 sum, which is wrong beyond some ten thousand words. It also costs
    5 % of the training time, and is missing for fastText.

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
        targets, contexts = zip(*windows, strict=True)
        frequencies = model.wv.expandos["count"].astype(np.float64) ** 0.75  # as in training
        noise = random.choice(
            len(model.wv),
            (len(windows), parameters.negatives),
            p=frequencies / frequencies.sum(),
        )
        # Rows of the output vectors, (windows, 1 + negatives); the target word comes first.
        self.outputs = np.column_stack([targets, noise])
        self.lengths = np.array([len(context) for context in contexts])
        self.words, self.contexts = np.unique(np.concatenate(contexts), return_inverse=True)

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


def _input_vectors(model: Any, rows: IntArray) -> FloatArray:
    """The current input vectors; fastText's are composed from the rows that it trains."""
    if not hasattr(model.wv, "vectors_ngrams"):
        return np.asarray(model.wv.vectors[rows])
    return np.array([_composed(model.wv, row) for row in rows])


def _composed(vectors: Any, row: int) -> FloatArray:
    buckets = vectors.buckets_word[row]
    total = vectors.vectors_vocab[row] + vectors.vectors_ngrams[buckets].sum(axis=0)
    return np.asarray(total / (len(buckets) + 1))
