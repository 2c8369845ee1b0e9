"""The file of a language model: restored exactly, without a pickle, and errors name the file."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from infra.errors import UserError
from models.language_model.bilm import embed
from models.language_model.objective import LanguageModel
from tasks.embeddings.contextual.bilm_file import TrainedBiLM, load_bilm, save_bilm
from tests.factories.language_models import CONFIG


def test_model_is_restored(tmp_path: Path) -> None:
    torch.manual_seed(0)
    words = ["the", "naïve", "日本"]
    model = LanguageModel(CONFIG, len(words) + 2, 0.1)
    save_bilm(tmp_path / "m.safetensors", TrainedBiLM(model, words, {"method": "elmo"}))
    loaded = load_bilm(tmp_path / "m.safetensors")
    assert list(loaded.words) == words and loaded.history == {"method": "elmo"}
    assert loaded.model.bilm.config == CONFIG
    sentence = ["a", "naïve", "test"]
    (expected,), _ = embed(model.bilm.eval(), [sentence])
    np.testing.assert_array_equal(embed(loaded.model.bilm, [sentence])[0][0], expected)
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], tensor)


def test_other_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gone\.safetensors can't be read as a language model"):
        load_bilm(tmp_path / "gone.safetensors")
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(UserError, match=r"other\.safetensors can't be read as a language model"):
        load_bilm(tmp_path / "other.safetensors")
