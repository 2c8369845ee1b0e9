"""CBOW, skip-gram and fastText by gensim, which reads the corpus file on all cores without the GIL.

Mikolov et al. (2013), "Efficient estimation of word representations in vector space";
Bojanowski et al. (2017), "Enriching word vectors with subword information".
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from tasks.embeddings.corpus import read_vocabulary
from tasks.embeddings.parameters import EmbeddingParameters
from tasks.embeddings.progress import Progress
from tasks.embeddings.wordset import Subwords, WordSet

SECONDS_BETWEEN_LOOKS = 1.0
GREATEST_TALLY = 2.0**20
"""gensim adds up losses as float32, whose steps are 1/8 from here on: smaller losses get lost. A
word's has been above 1.3 wherever it was looked at (least by CBOW, on 1.2 million words), so that a
worker with more words than this need not spend a twentieth of its time on them."""


def train_by_gensim(
    corpus: Path, facts: dict[str, Any], parameters: EmbeddingParameters, start: WordSet | None
) -> tuple[WordSet, dict[str, Any]]:
    """Vectors of a prepared corpus' words, the most frequent first, and facts of the training.

    `facts` are those of `prepare_corpus`. From `start` the vectors of words that the corpus has
    are taken as first values. The loss is a word's mean in one worker's share: gensim keeps no
    other, none for fastText, and no right one of more than some ten thousands of words a worker,
    of which none is told.

    Raises:
        UserError: fewer than two words occur often enough.
    """
    counts = read_vocabulary(corpus, parameters.min_count)
    model = make_model(parameters)
    model.build_vocab_from_freq(counts, corpus_count=facts["paragraphs"])
    if start is not None:
        _begin_with(model, start)
    file = corpus / "corpus.txt"
    progress = Progress(parameters.method, facts["words"] * parameters.passes, "words")
    watch = _Watch(file, facts["words"], parameters, progress)
    with watch.looking():
        model.train(
            corpus_file=str(file),
            total_words=facts["words"],
            epochs=parameters.passes,
            compute_loss=watch.tells_losses,
            callbacks=[watch],
        )
    told = {"words_per_second": round(facts["words"] * parameters.passes / progress.seconds)}
    losses = {"losses": watch.losses} if len(watch.losses) == parameters.passes else {}
    return _word_set(model, parameters), told | losses


def make_model(parameters: EmbeddingParameters) -> Any:
    """An empty gensim model. Learning rates and the down-sampling of frequent words are those of
    word2vec.c and fastText, of which gensim has skip-gram's for all."""
    from gensim.models import FastText, Word2Vec

    common = {
        "vector_size": parameters.dimension,
        "window": parameters.context,
        "min_count": parameters.min_count,
        "negative": parameters.negatives,
        "alpha": 0.025 if parameters.method == "skipgram" else 0.05,
        "sample": 1e-4 if parameters.method == "fasttext" else 1e-3,
        "sg": int(parameters.method != "cbow"),
        "seed": parameters.seed,
        "workers": parameters.threads,
        "epochs": parameters.passes,
    }
    if parameters.method != "fasttext":
        return Word2Vec(**common)
    return FastText(
        min_n=parameters.min_ngram,
        max_n=parameters.max_ngram,
        bucket=parameters.buckets,
        **common,
    )


def _begin_with(model: Any, start: WordSet) -> None:
    """Set first values: by word, and of n-grams, which are of the same kind if there are any."""
    rows = start.rows
    shared = [(i, rows[w]) for i, w in enumerate(model.wv.index_to_key) if w in rows]
    if not hasattr(model.wv, "vectors_ngrams"):
        for i, row in shared:
            model.wv.vectors[i] = start.vectors[row]
        return
    if start.subwords is not None:
        model.wv.vectors_ngrams[:] = start.subwords.ngrams
    # A word's vector is the mean of its own row and its n-grams'; its own row is solved for.
    for i, row in shared:
        buckets = model.wv.buckets_word[i]
        total = model.wv.vectors_ngrams[buckets].sum(axis=0)
        model.wv.vectors_vocab[i] = start.vectors[row] * (len(buckets) + 1) - total


def _word_set(model: Any, parameters: EmbeddingParameters) -> WordSet:
    subwords = None
    if parameters.method == "fasttext":
        subwords = Subwords(model.wv.vectors_ngrams, parameters.min_ngram, parameters.max_ngram)
    return WordSet(list(model.wv.index_to_key), model.wv.vectors, subwords)


class _Watch:
    """Tells of gensim's training: its callbacks by epoch, between them by how far it has read.

    gensim counts words only when a worker has read its whole share, so the positions of the open
    corpus file stand in for them (where the system tells: Linux and Windows).
    """

    def __init__(
        self, file: Path, words: int, parameters: EmbeddingParameters, progress: Progress
    ) -> None:
        self.file, self.words, self.parameters, self.progress = file, words, parameters, progress
        self.share = words / parameters.threads
        self.tells_losses = parameters.method != "fasttext" and self.share < GREATEST_TALLY
        self.epoch = 0
        self.losses: list[float] = []
        self.seen: dict[int, tuple[int, int]] = {}
        self.done = threading.Event()

    def on_train_begin(self, model: Any) -> None:
        """gensim calls it; nothing is to do."""

    on_train_end = on_train_begin

    def on_epoch_begin(self, model: Any) -> None:
        """Forget the positions and the loss of the epoch before."""
        self.seen.clear()
        model.running_training_loss = 0.0

    def on_epoch_end(self, model: Any) -> None:
        """Tell of the epoch."""
        self.epoch += 1
        more = f", epoch {self.epoch} of {self.parameters.passes}"
        tally = float(model.running_training_loss)
        if self.parameters.method == "fasttext":
            more += ", gensim tells no loss of fasttext"
        elif self.tells_losses and tally < GREATEST_TALLY:
            self.losses.append(tally / self.share)
            more += f", loss {self.losses[-1]:.3f} a word"
        else:
            more += ", loss too great for gensim's float32 sum"
        self.progress.at(self.epoch * self.words, more, always=True)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look at the positions every second during the block."""
        looker = threading.Thread(target=self._look, daemon=True)
        looker.start()
        try:
            yield
        finally:
            self.done.set()
            looker.join()

    def _look(self) -> None:
        while not self.done.wait(SECONDS_BETWEEN_LOOKS):
            share = self._share_read()
            if share:
                self.progress.at((self.epoch + share) * self.words)

    def _share_read(self) -> float:
        for opened in psutil.Process().open_files():
            if opened.path == str(self.file.resolve()):
                position = getattr(opened, "position", 0)
                first, _ = self.seen.get(opened.fd, (position, position))
                self.seen[opened.fd] = first, max(position, first)
        read = sum(last - first for first, last in list(self.seen.values()))
        return float(min(read / self.file.stat().st_size, 1.0))
