"""Layers of a split's texts: stored once for each distinct text, and within the disk's bounds."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

import tasks.embeddings.contextual.stored_layers as stored
from infra.errors import UserError
from models.token_layers import TokenLayers
from tasks.embeddings.contextual.frozen_bilm import FrozenBiLM
from tasks.embeddings.contextual.stored_layers import load_layers, require_space, write_layers
from tasks.text.tokenizer import tokenize
from tests.factories.language_models import CONFIG, selected_bilm
from tests.factories.splits import ingest

CONTEXTS = ["The club met on Friday. It voted.", "A golf club broke!", "Ünïcode 日本 word"]
QUESTIONS = [["Who met?", "What broke?"], ["What broke?"], ["Who met?", "Why so?"]]


def words_of(text: str) -> list[str]:
    return [text[start:end] for start, end in tokenize(text)]


def rows_of(layers: TokenLayers, texts: list[str]) -> list[np.ndarray]:
    """The layers of each row, without the null token."""
    lengths = np.array([len(words_of(text)) for text in texts])
    padded = layers.padded(np.arange(len(texts)), lengths, int(lengths.max()) + 1).numpy()
    return [row[1 : 1 + length] for row, length in zip(padded, lengths, strict=True)]


@pytest.mark.parametrize("batch_tokens", [1, 1_000])
def test_every_text_has_its_layers(
    batch_tokens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Computed one by one, and all together."""
    monkeypatch.setattr(stored, "BATCH_TOKENS", batch_tokens)
    split = ingest(tmp_path / "split", *zip(CONTEXTS, QUESTIONS, strict=True))
    bilm, out = selected_bilm(tmp_path / "bilm"), tmp_path / "out"
    out.mkdir()
    facts = write_layers(out, split, bilm)
    assert facts["texts"] == 3 + 3, "each distinct question once"
    questions = [question for asked in QUESTIONS for question in asked]
    assert facts["tokens"] == sum(len(words_of(t)) for t in [*CONTEXTS, *set(questions)])
    layers, model = load_layers(out), FrozenBiLM.load(bilm)
    for part, texts in ((layers.contexts, CONTEXTS), (layers.questions, questions)):
        assert part.chunks[0].dtype == np.float16 and not part.chunks[0].flags.owndata
        for actual, text in zip(rows_of(part, texts), texts, strict=True):
            (expected,) = model.layers([words_of(text)])
            assert actual.shape == (len(words_of(text)), *CONFIG.layers_shape)
            np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-6)


def test_layers_do_not_depend_on_other_texts(tmp_path: Path) -> None:
    model = FrozenBiLM.load(selected_bilm(tmp_path / "bilm"))
    texts = [words_of(text) for text in (*CONTEXTS, "", "club " * 300, *CONTEXTS)]
    together = model.layers(texts)
    for words, layers in zip(texts, together, strict=True):
        (alone,) = model.layers([words])
        np.testing.assert_allclose(layers, alone, rtol=0, atol=1e-6)
    assert together[3].shape == (0, *CONFIG.layers_shape)


def test_word_vectors_are_layer_0(tmp_path: Path) -> None:
    model = FrozenBiLM.load(selected_bilm(tmp_path / "bilm", lower_case=True))
    words = ["Club", "日本", "a-word-of-more-than-eight-bytes"]
    (layers,) = model.layers([words])
    (alone,) = model.layers([words], 0)
    np.testing.assert_array_equal(alone, layers[:, 0])
    np.testing.assert_allclose(model.word_vectors(words), layers[:, 0], rtol=0, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_layers_of_a_gpu_are_those_of_a_cpu(tmp_path: Path) -> None:
    bilm = selected_bilm(tmp_path / "bilm")
    words = words_of(CONTEXTS[0])
    (expected,) = FrozenBiLM.load(bilm).layers([words])
    model = FrozenBiLM.load(bilm).on_gpu()
    assert model.bilm.encoder.embedding.weight.is_cuda
    np.testing.assert_allclose(model.layers([words])[0], expected, rtol=0, atol=5e-3)


def test_case_is_that_of_the_training(tmp_path: Path) -> None:
    cased, lower = (
        FrozenBiLM.load(selected_bilm(tmp_path / f"{case}", lower_case=case))
        for case in (False, True)
    )
    (upper_cased, lower_cased) = cased.layers([["Club"], ["club"]])
    assert np.abs(upper_cased - lower_cased).max() > 1e-3
    np.testing.assert_allclose(lower.layers([["Club"]])[0], lower_cased, atol=1e-6)


def test_space_is_shown_and_bounded(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        require_space(2_000_000, (3, 640), tmp_path)
    assert "2,000,000 tokens take up to 7.7 GB on disk" in caplog.text
    monkeypatch.setenv("BIDAFLOW_LAYERS_GB", "5")
    with pytest.raises(UserError, match=r"take up to 7\.7 GB .*BIDAFLOW_LAYERS_GB allows 5 GB"):
        require_space(2_000_000, (3, 640), tmp_path)
    require_space(1_000_000, (3, 640), tmp_path)
    other = root / "stages" / "compute-layers" / "another-dataset" / "layers.npy"
    other.parent.mkdir(parents=True)
    with other.open("wb") as file:
        file.truncate(2 * 10**9)  # sparse
    message = r"take up to 3\.8 GB .* 2\.0 GB are stored already, .* `bidaflow prune`"
    with pytest.raises(UserError, match=message):
        require_space(1_000_000, (3, 640), tmp_path)
    with pytest.raises(UserError, match=r"only .* GB are free at .*bidaflow prune"):
        require_space(10**12, (3, 640), tmp_path)
