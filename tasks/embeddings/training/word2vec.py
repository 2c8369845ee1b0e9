"""Trains CBOW, skip-gram and fastText with gensim, which reads the corpus file without the GIL.

Mikolov et al. (2013), "Efficient estimation of word representations in vector space";
Bojanowski et al. (2017), "Enriching word vectors with subword information".
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from infra.progress_reporter import ProgressReporter
from tasks.embeddings.formats.word_vectors import Subwords, WordSet, own_row
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.embeddings.training.corpus import read_vocabulary
from tasks.embeddings.training.sampled_loss import SampledLoss

# gensim is imported locally, because it takes seconds to load.

POLL_SECONDS = 1.0


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
    model = make_model(parameters)
    model.build_vocab_from_freq(counts, corpus_count=facts["paragraphs"])
    if start is not None:
        _initialise_from(model, start)
    file = corpus / "corpus.txt"
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
    return _word_set(model, parameters), {
        "words_per_second": round(words / progress.seconds),
        "losses": reading_progress.losses,
    }


def make_model(parameters: EmbeddingParameters) -> Any:
    """A gensim model without a vocabulary.

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
    rows = start.rows
    shared = [(i, rows[w]) for i, w in enumerate(model.wv.index_to_key) if w in rows]
    if not hasattr(model.wv, "vectors_ngrams"):
        for i, row in shared:
            model.wv.vectors[i] = start.vectors[row]
        return
    if start.subwords is not None:
        model.wv.vectors_ngrams[:] = start.subwords.ngrams
    for i, row in shared:
        ngrams = model.wv.vectors_ngrams[model.wv.buckets_word[i]]
        model.wv.vectors_vocab[i] = own_row(start.vectors[row], ngrams)


def _word_set(model: Any, parameters: EmbeddingParameters) -> WordSet:
    subwords = None
    if parameters.method == "fasttext":
        subwords = Subwords(model.wv.vectors_ngrams, parameters.min_ngram, parameters.max_ngram)
    return WordSet(list(model.wv.index_to_key), model.wv.vectors, subwords)


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
        self.epoch = 0
        self.losses: list[float] = []
        self.seen: dict[int, tuple[int, int]] = {}
        self.done = threading.Event()

    def on_epoch_begin(self, model: Any) -> None:
        """Do nothing; gensim requires the method."""

    on_train_begin = on_train_end = on_epoch_begin

    def on_epoch_end(self, model: Any) -> None:
        """Record and report the epoch's loss, and reset the read positions."""
        self.losses.append(self.loss(model))
        self.seen.clear()
        self.epoch += 1
        details = f"epoch {self.epoch} of {model.epochs}, loss {self.losses[-1]:.3f}"
        self.progress.report(self.epoch * self.words, details, always=True)

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
        while not self.done.wait(POLL_SECONDS):
            share = self.share_read()
            if share:
                self.progress.report((self.epoch + share) * self.words)

    def share_read(self) -> float:
        """Share of the corpus file that its readers have read so far, from 0 to 1."""
        for opened in psutil.Process().open_files():
            if opened.path == str(self.file.resolve()):
                position = getattr(opened, "position", 0)
                first, _ = self.seen.get(opened.fd, (position, position))
                self.seen[opened.fd] = first, max(position, first)
        read = sum(last - first for first, last in list(self.seen.values()))
        return float(min(read / self.file.stat().st_size, 1.0))
