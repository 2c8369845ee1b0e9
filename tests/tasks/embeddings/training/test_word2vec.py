"""Training by gensim: what it reads, the progress and errors of reading, and the sampled loss."""

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from infra.errors import UserError
from infra.reporting import progress_reporter
from infra.reporting.progress_reporter import ProgressReporter
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.embeddings.training.corpus import read_vocabulary
from tasks.embeddings.training.word2vec import Epochs, SampledLoss, make_model, train_by_gensim
from tests.factories.corpus import corpus_of, two_topic_sentences

WORD2VEC = ("cbow", "skipgram", "fasttext")


def private_attributes(file: Path) -> Iterator[str]:
    """Private attributes in a file of other objects than `self`, and private names imported."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(value=ast.Name("self" | "cls")):
                pass
            case ast.Attribute(attr=name) if name.startswith("_") and not name.endswith("__"):
                yield f"{file.name}:{node.lineno} .{name}"
            case ast.ImportFrom(module=str(module)) if module.startswith("gensim"):
                names = [*module.split("."), *(alias.name for alias in node.names)]
                yield from (name for name in names if name.startswith("_"))


def test_no_private_name_of_gensim_is_used() -> None:
    files = [file for file in Path("tasks").rglob("*.py") if "gensim" in file.read_text()]
    assert files
    assert [name for file in files for name in private_attributes(file)] == []


def test_progress_counts_the_words_read_in_all_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = corpus_of(tmp_path, two_topic_sentences(1_000))  # of 20 words each
    lines: list[str] = []
    monkeypatch.setattr(progress_reporter, "logger", lambda: SimpleNamespace(info=lines.append))
    monkeypatch.setattr(progress_reporter, "LINE_SECONDS", 0.0)
    with ProgressReporter("cbow", 40_000, "words") as progress:
        epochs = Epochs(corpus, 20_000, lambda model: 0.5, progress)
        assert len(list(epochs)) == 1_000
        epochs.on_epoch_end(SimpleNamespace(epochs=2))
        paragraphs = iter(epochs)
        for _ in range(501):
            next(paragraphs)
    assert epochs.losses == [0.5]
    assert any("50%" in line and "epoch 1 of 2, loss 0.500" in line for line in lines)
    assert "75%" in lines[-1]


@pytest.mark.parametrize("method", WORD2VEC)
def test_error_of_the_corpus_ends_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    corpus = corpus_of(tmp_path, two_topic_sentences(50))
    epoch_end = Epochs.on_epoch_end

    def remove_corpus(epochs: Epochs, model: Any) -> None:
        epoch_end(epochs, model)
        (corpus / "corpus.txt").unlink()

    monkeypatch.setattr(Epochs, "on_epoch_end", remove_corpus)
    with pytest.raises(FileNotFoundError):
        train_by_gensim(corpus, {"words": 1_000, "paragraphs": 50}, parameters_of(method), None)


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
    loss = SampledLoss(corpus, 400, model, parameters)
    model.syn1neg[:] = np.random.default_rng(0).normal(size=model.syn1neg.shape)
    for key in range(len(model.wv)):  # compose fastText's vectors as training does
        if method == "fasttext":
            parts = [model.wv.vectors_ngrams[bucket] for bucket in model.wv.buckets_word[key]]
            model.wv.vectors[key] = np.mean([model.wv.vectors_vocab[key], *parts], axis=0)
    total = 0.0
    for context, (target, *noise) in loss.windows:
        hidden = np.mean([model.wv.vectors[row] for row in context], axis=0)
        total -= log_sigmoid(model.syn1neg[target] @ hidden)
        total -= sum(log_sigmoid(-model.syn1neg[n] @ hidden) for n in noise)
        assert target not in noise
    assert loss(model) == pytest.approx(total / len(loss.windows), rel=1e-5)
    longest = max(len(context) for context, _ in loss.windows)
    assert longest > 1 if method == "cbow" else longest == 1


@pytest.mark.parametrize("method", WORD2VEC)
def test_rejects_corpus_of_single_word_lines(tmp_path: Path, method: str) -> None:
    corpus = corpus_of(tmp_path, [["apple"], ["pear"], ["plum"]] * 20)
    facts = {"words": 60, "paragraphs": 60}
    with pytest.raises(UserError, match="No sampled line has two words"):
        train_by_gensim(corpus, facts, parameters_of(method), None)


@pytest.mark.parametrize("method", ["cbow", "skipgram"])  # fastText's n-grams are in all texts
@pytest.mark.parametrize("short_first", [False, True])
def test_threads_read_all_text(tmp_path: Path, method: str, short_first: bool) -> None:
    """The words of half of the file are six times as long as those of the other half."""
    short = [[f"{line}", "a", "b", "c", "d", "e"] * 10 for line in range(2_000)]
    long = [[f"{word}" * 6 for word in line] for line in short]
    corpus = corpus_of(tmp_path, short + long if short_first else long + short)
    counts = read_vocabulary(corpus, 1)
    parameters = parameters_of(method).model_copy(update={"workers": 4, "epochs": 1})
    untrained_model = untrained(corpus, parameters)
    facts = {"words": sum(counts.values()), "paragraphs": 4_000}
    trained, _ = train_by_gensim(corpus, facts, parameters, None)
    same = np.isclose(trained.vectors, untrained_model.wv.vectors).all(axis=1)
    assert trained.words == untrained_model.wv.index_to_key
    assert [word for word, unread in zip(trained.words, same, strict=True) if unread] == []
