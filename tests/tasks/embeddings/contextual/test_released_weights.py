"""Released weights reproduce what the original TensorFlow code computed for the fixture."""

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from infra.errors import UserError
from models.arrays import Float32Array
from models.language_model.bilm import BiLM, embed
from tasks.embeddings.contextual.released_weights import load_released, read_options


@pytest.fixture(scope="module")
def fixture(shared_data: Path) -> Path:
    """The folder of the fixture: AllenNLP's tiny model with random weights."""
    return shared_data / "elmo"


@pytest.fixture(scope="module")
def sentences(fixture: Path) -> list[list[str]]:
    texts = json.loads((fixture / "sentences.json").read_text(encoding="utf-8"))[0]
    return [text.split() for text in texts]


@pytest.fixture(scope="module")
def model(fixture: Path) -> BiLM:
    return load_released(fixture / "options.json", fixture / "lm_weights.hdf5")


def top_layer(directions: Any) -> Float32Array:
    """The fixture's vectors of the top layer, whose first axis is the direction."""
    return np.concatenate([directions[0], directions[1]], axis=-1)


def test_carried_state_reproduces_all_sentences(
    model: BiLM, fixture: Path, sentences: list[list[str]]
) -> None:
    states = None
    with h5py.File(fixture / "lm_embeddings_0.hdf5") as expected:
        assert len(expected) == len(sentences) == 10
        for number, sentence in enumerate(sentences):
            (vectors,), states = embed(model, [sentence], states)
            np.testing.assert_allclose(
                vectors[-1], top_layer(expected[str(number)]), atol=1e-5, rtol=0
            )


def test_only_first_sentence_needs_no_state(
    model: BiLM, fixture: Path, sentences: list[list[str]]
) -> None:
    vectors, _ = embed(model, sentences)
    with h5py.File(fixture / "lm_embeddings_0.hdf5") as expected:
        np.testing.assert_allclose(vectors[0][-1], top_layer(expected["0"]), atol=1e-5, rtol=0)
        assert np.abs(vectors[1][-1] - top_layer(expected["1"])).max() > 1e-3


def test_batched_and_single_vectors_are_equal(
    model: BiLM, fixture: Path, sentences: list[list[str]]
) -> None:
    together, _ = embed(model, sentences)
    for sentence, vectors in zip(sentences, together, strict=True):
        (alone,), _ = embed(model, [sentence])
        np.testing.assert_allclose(vectors, alone, atol=1e-6, rtol=1e-6)


def test_unusable_files_are_named(tmp_path: Path, fixture: Path) -> None:
    options, weights = fixture / "options.json", fixture / "lm_weights.hdf5"
    with pytest.raises(UserError, match=r"none\.json can't be read as the options"):
        load_released(tmp_path / "none.json", weights)
    other = json.loads(options.read_text(encoding="utf-8"))
    other["lstm"]["dim"] = 32
    (tmp_path / "options.json").write_text(json.dumps(other), encoding="utf-8")
    with pytest.raises(UserError, match=r"lm_weights\.hdf5 can't be read, or belong to other"):
        load_released(tmp_path / "options.json", weights)
    shutil.copy(options, tmp_path / "weights.hdf5")
    with pytest.raises(UserError, match=r"weights\.hdf5 can't be read"):
        load_released(options, tmp_path / "weights.hdf5")


def test_options_without_clips_do_not_clip(tmp_path: Path, fixture: Path) -> None:
    changed = changed_options(tmp_path, fixture, lstm={"cell_clip": ..., "proj_clip": ...})
    model = load_released(changed, fixture / "lm_weights.hdf5")
    assert (model.config.cell_clip, model.config.projection_clip) == (None, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"char_cnn": {"max_characters_per_token": 20}}, "max_characters_per_token 20, but only"),
        ({"lstm": {"dim": 16}}, r"without a projection \(dim 16, projection_dim 16\)"),
        ({"lstm": {"dim": 16, "cell_clip": ..., "proj_clip": ...}}, "without a projection"),
        ({"lstm": {"use_skip_connections": False}}, "without skip connections"),
    ],
)
def test_other_kinds_of_models_are_refused(
    tmp_path: Path, fixture: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=rf"options\.json .*{message}"):
        read_options(changed_options(tmp_path, fixture, **changes))


def changed_options(folder: Path, fixture: Path, **changes: dict[str, Any]) -> Path:
    """Options with other values; ... leaves one out."""
    options = json.loads((fixture / "options.json").read_text(encoding="utf-8"))
    for part, values in changes.items():
        merged = options[part] | values
        options[part] = {name: value for name, value in merged.items() if value is not ...}
    file = folder / "options.json"
    file.write_text(json.dumps(options), encoding="utf-8")
    return file
