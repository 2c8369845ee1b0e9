"""Progress of training by gensim, from the positions in the corpus file, and the sampled loss."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from infra.errors import UserError
from infra.reporting.progress_reporter import ProgressReporter
from tasks.embeddings.training import word2vec
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.embeddings.training.corpus import read_vocabulary
from tasks.embeddings.training.word2vec import (
    ReadingProgress,
    SampledLoss,
    make_model,
    parts_of,
    train_by_gensim,
)
from tests.factories.corpus import corpus_of, two_topic_sentences

WORD2VEC = ("cbow", "skipgram", "fasttext")


def test_share_read_covers_all_worker_positions(tmp_path: Path) -> None:
    file = tmp_path / "corpus.txt"
    file.write_bytes(b"a" * 1000)
    reporter = ProgressReporter("cbow", 500, "words")
    reading_progress = ReadingProgress(file, 500, lambda model: 0.0, reporter)
    with file.open("rb") as first, file.open("rb") as second:
        second.seek(500)
        assert reading_progress.share_read() == 0
        first.seek(100)
        second.seek(700)
        assert reading_progress.share_read() == pytest.approx(0.3)
        reading_progress.on_epoch_end(SimpleNamespace(epochs=2))
        assert reading_progress.share_read() == 0 and reading_progress.losses == [0.0]


def parameters_of(method: str) -> EmbeddingParameters:
    small = {"dimension": 8, "min_count": 1, "workers": 1, "epochs": 3}
    ngrams = {"buckets": 50} if method == "fasttext" else {}
    return EmbeddingParameters.model_validate({"method": method, **small, **ngrams})


def untrained(corpus: Path, parameters: EmbeddingParameters) -> Any:
    model = make_model(parameters)
    model.build_vocab_from_freq(read_vocabulary(corpus, 1), corpus_count=400)
    return model


def log_sigmoid(x: float) -> float:
    return -float(np.log1p(np.exp(-x)))


@pytest.mark.parametrize("method", WORD2VEC)
def test_sampled_loss_matches_a_reference_loop(tmp_path: Path, method: str) -> None:
    corpus, parameters = corpus_of(tmp_path, two_topic_sentences()), parameters_of(method)
    model = untrained(corpus, parameters)
    loss = SampledLoss(corpus / "corpus.txt", model, parameters)
    model.syn1neg[:] = np.random.default_rng(0).normal(size=model.syn1neg.shape)
    for key in range(len(model.wv)):  # compose fastText's vectors as training does
        if method == "fasttext":
            parts = [model.wv.vectors_ngrams[bucket] for bucket in model.wv.buckets_word[key]]
            model.wv.vectors[key] = np.mean([model.wv.vectors_vocab[key], *parts], axis=0)
    total, first = 0.0, 0
    for outputs, length in zip(loss.outputs, loss.lengths, strict=True):
        context = loss.words[loss.contexts[first : first + length]]
        hidden = np.mean([model.wv.vectors[row] for row in context], axis=0)
        total -= log_sigmoid(model.syn1neg[outputs[0]] @ hidden)
        total -= sum(
            log_sigmoid(-model.syn1neg[n] @ hidden) for n in outputs[1:] if n != outputs[0]
        )
        first += length
    assert loss(model) == pytest.approx(total / len(loss.outputs), rel=1e-5)
    assert (loss.lengths.max() == 1) is np.bool_(method != "cbow")


@pytest.mark.parametrize("method", WORD2VEC)
def test_rejects_corpus_of_single_word_lines(tmp_path: Path, method: str) -> None:
    corpus = corpus_of(tmp_path, [["apple"], ["pear"], ["plum"]] * 20)
    facts = {"words": 60, "paragraphs": 60}
    with pytest.raises(UserError, match="No sampled line has two words"):
        train_by_gensim(corpus, facts, parameters_of(method), None)


@pytest.mark.parametrize("method", ["cbow", "skipgram"])  # fastText's n-grams are in all texts
@pytest.mark.parametrize("short_first", [False, True])
def test_threads_read_all_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, short_first: bool
) -> None:
    """The words of half of the file are six times as long as those of the other half."""
    monkeypatch.setattr(word2vec, "WORDS_PER_THREAD", 1)
    short = [[f"{line}", "a", "b", "c", "d", "e"] * 10 for line in range(2_000)]
    long = [[f"{word}" * 6 for word in line] for line in short]
    corpus = corpus_of(tmp_path, short + long if short_first else long + short)
    counts = read_vocabulary(corpus, 1)
    parameters = parameters_of(method).model_copy(update={"workers": 4, "epochs": 1})
    untrained_model = untrained(corpus, parameters)
    facts = {"words": sum(counts.values()), "paragraphs": 4_000}
    trained, _ = train_by_gensim(corpus, facts, parameters, None)
    start = word2vec._input_vectors(untrained_model, np.arange(len(counts)))
    same = np.isclose(trained.vectors, start).all(axis=1)
    assert trained.words == untrained_model.wv.index_to_key
    assert [word for word, unread in zip(trained.words, same, strict=True) if unread] == []


def test_parts_add_up_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word2vec, "CHUNK_BYTES", 7)
    file = tmp_path / "corpus.txt"
    file.write_text("one two three\n" * 50 + "a b c d e f g h\n" * 20)
    parts = parts_of(file, 3)
    assert [sum(counts) for counts in zip(*parts, strict=True)] == [70, 50 * 3 + 20 * 8]
    assert parts[0].words < parts[2].words and parts[0].lines > parts[2].lines


@pytest.mark.parametrize(("words", "threads"), [(50_000, 1), (250_000, 2), (10**9, 32)])
def test_small_corpus_has_few_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: int, threads: int
) -> None:
    """With more of them, gensim would read parts of it several times in an epoch."""
    corpus = corpus_of(tmp_path, two_topic_sentences(40))
    monkeypatch.setattr(
        word2vec, "make_model", lambda parameters: pytest.fail(f"{parameters.workers}")
    )
    parameters = EmbeddingParameters(method="cbow", min_count=1, workers=32)
    with pytest.raises(pytest.fail.Exception, match=f"^{threads}$"):
        train_by_gensim(corpus, {"words": words, "paragraphs": 40}, parameters, None)
