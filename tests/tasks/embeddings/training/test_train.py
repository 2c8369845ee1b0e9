"""Training by each method: related words are close, and the output records its parameters."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from infra.artifacts.manifest import content_digest
from infra.artifacts.stage import Output, Stage
from infra.errors import UserError
from infra.reporting import progress_reporter
from tasks.embeddings.formats.export import publish_vectors
from tasks.embeddings.formats.select import load_vectors, select_vectors
from tasks.embeddings.formats.store import composed_vectors, history_of, read_vectors, write_vectors
from tasks.embeddings.formats.word_vectors import Subwords, WordSet, hashes
from tasks.embeddings.training import word2vec
from tasks.embeddings.training.config import METHODS, EmbeddingParameters
from tasks.embeddings.training.train import train_vectors
from tasks.embeddings.training.word2vec import MAX_BUCKETS, choose_buckets, make_model
from tests.factories.corpus import ANIMALS, TOOLS, corpus_of, two_topic_sentences

SMALL = {"dimension": 16, "min_count": 2, "workers": 1, "epochs": 10}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared corpus with a manifest, as its stage writes it."""
    folder = corpus_of(tmp_path_factory.mktemp("corpus"), two_topic_sentences())
    facts = {"words": 8000, "distinct": 12, "paragraphs": 400}
    manifest = {"digest": "d1ge5t", "facts": facts, "inputs": {"lower_case": True}}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def train(out: Path, corpus: Path, start: Path | None = None, **changes: Any) -> dict[str, Any]:
    out.mkdir()
    ngrams = {"buckets": 500} if changes.get("method") == "fasttext" else {}
    return train_vectors(out, corpus, EmbeddingParameters(**{**SMALL, **ngrams, **changes}), start)


def mean_cosine(vectors: dict[str, Any], left: list[str], right: list[str]) -> float:
    pairs = [(vectors[a], vectors[b]) for a in left for b in right if a != b]
    return float(np.mean([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs]))


@pytest.mark.parametrize("method", METHODS)
def test_related_words_are_closer_than_unrelated_ones(
    tmp_path: Path, corpus: Path, method: str
) -> None:
    facts = train(tmp_path / "out", corpus, method=method, epochs=30)
    words, matrix = read_vectors(tmp_path / "out")
    vectors = dict(zip(words.to_pylist(), matrix, strict=True))
    assert set(vectors) == {*ANIMALS, *TOOLS, "the", "of"}
    within = (mean_cosine(vectors, ANIMALS, ANIMALS) + mean_cosine(vectors, TOOLS, TOOLS)) / 2
    # GloVe sees only words that co-occur: it draws them together but pushes no words apart.
    margin = 0.005 if method == "glove" else 0.2
    assert within > mean_cosine(vectors, ANIMALS, TOOLS) + margin
    assert facts["words"] == 12 and facts["corpus"]["words"] == 8000
    history = history_of(tmp_path / "out" / "vectors.parquet")
    assert history["method"] == method and history["parameters"]["dimension"] == 16
    assert history["parameters"]["epochs"] == 30
    assert (history["corpus"], history["lower_case"]) == ("d1ge5t", True)


@pytest.mark.parametrize("method", METHODS)
def test_one_worker_and_seed_are_deterministic(tmp_path: Path, corpus: Path, method: str) -> None:
    for out in ("a", "b"):
        train(tmp_path / out, corpus, method=method, epochs=2)
    a, b = ((tmp_path / out / "vectors.parquet").read_bytes() for out in ("a", "b"))
    assert a == b


@pytest.mark.parametrize("method", METHODS)
def test_loss_is_reported_per_epoch(
    tmp_path: Path, corpus: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(progress_reporter, "logger", lambda: SimpleNamespace(info=lines.append))
    losses = train(tmp_path / "out", corpus, method=method, epochs=6)["losses"]
    assert len(losses) == 6 and losses[-1] < losses[0]
    last = f"epoch 6 of 6, loss {losses[-1]:.{4 if method == 'glove' else 3}f}"
    assert lines[-1].endswith(last)


def test_oov_words_are_composed_from_ngrams(tmp_path: Path, corpus: Path) -> None:
    train(tmp_path / "trained", corpus, method="fasttext", epochs=30)
    out = tmp_path / "picked"
    out.mkdir()
    source = str(tmp_path / "trained" / "vectors.parquet")
    select_vectors(out, source, {"badgers", "otter", "q"}, 0)
    words, _ = read_vectors(out)
    assert words.to_pylist() == ["otter"]
    badgers, q = composed_vectors(out, ["badgers", "q"])
    assert badgers.any() and q.any()
    known = load_vectors(source)
    vectors = {**dict(zip(known.words, known.vectors, strict=True)), "badgers": badgers}
    near, far = (mean_cosine(vectors, ["badgers"], words) for words in (ANIMALS, TOOLS))
    assert near > far + 0.5


@pytest.mark.parametrize("word", ["owl", "a", "straße", "日本語", "naïve-ish", "é", "10,000"])
def test_ngrams_and_hashes_match_gensim(word: str) -> None:
    from gensim.models.fasttext import ft_ngram_hashes

    for shortest, longest in ((3, 6), (1, 2), (2, 2)):
        expected = ft_ngram_hashes(word, shortest, longest, 1000)
        assert [h % 1000 for h in hashes(word, shortest, longest)] == expected


@pytest.mark.parametrize("method", METHODS)
def test_training_continues_from_given_vectors(tmp_path: Path, corpus: Path, method: str) -> None:
    train(tmp_path / "first", corpus, method=method, epochs=30)
    start = tmp_path / "first" / "vectors.parquet"
    (tmp_path / "domain").mkdir()
    lines = [["badger", "otter", "newt", "the"]] * 300
    domain = corpus_of(tmp_path / "domain", lines)
    facts = {"words": 1200, "distinct": 4, "paragraphs": 300}
    manifest = {"digest": "other", "facts": facts, "inputs": {"lower_case": True}}
    (domain / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    result = train(tmp_path / "second", domain, start=start, method=method, epochs=2)
    assert (result["carried_over"], result["new"], result["unchanged"]) == (3, 1, 9)
    history = history_of(tmp_path / "second" / "vectors.parquet")
    assert (history["start_name"], history["start"]) == ("first", content_digest(start))
    before, after = (
        load_vectors(str(start)),
        load_vectors(str(tmp_path / "second" / "vectors.parquet")),
    )
    assert set(after.words) == {*before.words, "newt"}
    changed = {
        word: float(np.linalg.norm(after.vectors[after.rows[word]] - vector))
        for word, vector in zip(before.words, before.vectors, strict=True)
    }
    assert changed["hammer"] == 0 < changed["badger"]
    assert changed["badger"] < np.linalg.norm(before.vectors[before.rows["badger"]])


def test_ngrams_carry_over_without_shared_words(tmp_path: Path, corpus: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    ngrams = np.full((500, 16), 7, np.float32)
    write_vectors(first, WordSet(["newt"], np.ones((1, 16), np.float32)), {"method": "fasttext"})
    Subwords(ngrams, 3, 6).save(first)
    train(
        tmp_path / "out",
        corpus,
        start=first / "vectors.parquet",
        method="fasttext",
        epochs=1,
    )
    trained = Subwords.load(tmp_path / "out")
    assert trained is not None and np.median(trained.ngrams) == 7


def test_rejects_methods_that_would_lose_ngrams(tmp_path: Path, corpus: Path) -> None:
    train(tmp_path / "first", corpus, method="fasttext", epochs=1)
    with pytest.raises(
        UserError, match=r"start vectors have .* 'skipgram' would discard\. Set method to fast"
    ):
        train(tmp_path / "second", corpus, start=tmp_path / "first" / "vectors.parquet")


@pytest.mark.parametrize(
    ("method", "rate", "sample"),
    [("cbow", 0.05, 1e-3), ("skipgram", 0.025, 1e-3), ("fasttext", 0.05, 1e-4)],
)
def test_defaults_match_the_original_implementations(
    method: str, rate: float, sample: float
) -> None:
    model = make_model(EmbeddingParameters.model_validate({"method": method}))
    assert (model.alpha, model.sample, model.negative, model.window) == (rate, sample, 5, 5)


def test_rejects_start_vectors_of_another_dimension(tmp_path: Path, corpus: Path) -> None:
    train(tmp_path / "first", corpus, epochs=1)
    with pytest.raises(UserError, match="have dimension 16, but dimension is set to 8"):
        train(
            tmp_path / "second", corpus, start=tmp_path / "first" / "vectors.parquet", dimension=8
        )


def test_rejects_start_ngrams_of_another_kind(tmp_path: Path, corpus: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    subwords = Subwords(np.ones((70, 16), np.float32), 3, 5)
    write_vectors(first, WordSet(["otter"], np.ones((1, 16), np.float32)), {"method": "fasttext"})
    subwords.save(first)
    with pytest.raises(UserError, match=r"\(buckets 500, max_ngram 6\) .* Set buckets to 70"):
        train(tmp_path / "out", corpus, start=first / "vectors.parquet", method="fasttext")


def test_failed_training_leaves_nothing(root: Path, prefect_server: None, corpus: Path) -> None:
    training = Stage(train_vectors, "train-embeddings")
    with pytest.raises(UserError, match="Lower min_count"):
        training(corpus, EmbeddingParameters(min_count=10_000))
    assert not list((root / "stages" / "train-embeddings").iterdir())
    output: Output = training(corpus, EmbeddingParameters(**SMALL))
    again: Output = training(corpus, EmbeddingParameters(**SMALL))
    assert again.cached and not output.cached and again.folder == output.folder


def test_ngram_file_is_in_proportion_to_the_vocabulary(tmp_path: Path, corpus: Path) -> None:
    train(tmp_path / "out", corpus, method="fasttext", buckets=None, epochs=1)
    distinct = set()
    for word in (*ANIMALS, *TOOLS, "the", "of"):
        text = f"<{word}>"
        distinct |= {text[i : i + n] for n in range(3, 7) for i in range(len(text) - n + 1)}
    subwords = Subwords.load(tmp_path / "out")
    assert subwords is not None
    buckets = len(subwords.ngrams)
    assert buckets == 2 ** (buckets.bit_length() - 1)
    assert len(distinct) <= buckets < 2 * len(distinct)
    size = (tmp_path / "out" / "subwords.safetensors").stat().st_size
    assert size < buckets * 16 * 4 + 1000
    history = history_of(tmp_path / "out" / "vectors.parquet")
    assert history["parameters"]["buckets"] == buckets


def test_words_of_one_letter_get_a_bucket() -> None:
    parameters = EmbeddingParameters(method="fasttext", min_ngram=4)
    assert choose_buckets(["a", "b"], parameters, None) == 1


def test_buckets_have_fasttexts_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_BUCKETS == 2_000_000
    monkeypatch.setattr(word2vec, "MAX_BUCKETS", 20)
    parameters = EmbeddingParameters(method="fasttext")
    assert choose_buckets(["ab"], parameters, None) == 4  # <ab, ab>, <ab>
    assert choose_buckets(["hammer"], parameters, None) == 20
    assert choose_buckets(["hammers", "badgers"], parameters, None) == 20


def test_reloaded_set_composes_the_same_oov_vectors(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = []

    def recording(parameters: EmbeddingParameters) -> Any:
        models.append(make_model(parameters))
        return models[-1]

    monkeypatch.setattr(word2vec, "make_model", recording)
    train(tmp_path / "out", corpus, method="fasttext", buckets=None, epochs=2)
    (file, *_) = publish_vectors(tmp_path / "out", tmp_path / "named", [])
    subwords = load_vectors(str(file)).subwords
    assert subwords is not None
    for word in ("hammers", "otterly", "straße", "x"):
        np.testing.assert_allclose(subwords.vector(word), models[0].wv[word], rtol=1e-5, atol=1e-7)


def test_warm_start_takes_the_buckets_of_its_start(tmp_path: Path, corpus: Path) -> None:
    train(tmp_path / "first", corpus, method="fasttext", buckets=77, epochs=1)
    start = tmp_path / "first" / "vectors.parquet"
    train(tmp_path / "second", corpus, start, method="fasttext", buckets=None, epochs=1)
    subwords = Subwords.load(tmp_path / "second")
    assert subwords is not None and len(subwords.ngrams) == 77


def test_setting_of_another_method_is_refused() -> None:
    with pytest.raises(ValueError, match="buckets has no effect with method 'skipgram'"):
        EmbeddingParameters(method="skipgram", buckets=500_000)
