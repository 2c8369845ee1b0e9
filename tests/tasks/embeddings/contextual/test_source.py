"""Language models are found by name, file or folder; other names are refused."""

import shutil
from pathlib import Path

import pytest

from infra.errors import UserError
from tasks.embeddings.contextual.select_bilm import read_bilm
from tasks.embeddings.contextual.source import ReleasedWeights, find_bilm, is_bilm
from tests.factories.language_models import CONFIG, write_bilm


def test_trained_models_are_found_by_name_or_path(root: Path, tmp_path: Path) -> None:
    file = write_bilm(tmp_path / "mine")
    assert find_bilm(str(file)) == find_bilm(str(file.parent)) == file
    (root / "embeddings").mkdir(parents=True)
    published = write_bilm(root / "embeddings" / "support", lower_case=True)
    assert find_bilm("support") == published
    frozen, history = read_bilm(published)
    assert frozen.bilm.config == CONFIG and frozen.lower_case and history["method"] == "elmo"


def test_released_weights_are_found_with_options(
    root: Path, tmp_path: Path, shared_data: Path
) -> None:
    for name in ("options.json", "lm_weights.hdf5"):
        shutil.copy(shared_data / "elmo" / name, tmp_path / f"elmo_small_{name}")
    found = find_bilm(str(tmp_path))
    assert found == find_bilm(str(tmp_path / "elmo_small_lm_weights.hdf5"))
    assert isinstance(found, ReleasedWeights)
    frozen, _ = read_bilm(found)
    assert not frozen.lower_case and frozen.bilm.config.layers == 2
    (tmp_path / "other_options.json").touch()
    with pytest.raises(UserError, match=r"has 2 files named \*options\.json"):
        find_bilm(str(tmp_path))
    (tmp_path / "second.hdf5").touch()
    with pytest.raises(UserError, match=r"it has 2 \.hdf5 files, so name one"):
        find_bilm(str(tmp_path))


def test_other_names_are_refused(root: Path) -> None:
    with pytest.raises(UserError, match=r"^No language model gone\. Expected the name of one"):
        find_bilm("gone")
    assert not is_bilm("glove-6b-50d")
    assert is_bilm("gone/bilm.safetensors"), "so that the error says what is missing"


def test_folder_with_word_vectors_is_no_language_model(root: Path, tmp_path: Path) -> None:
    folder = write_bilm(tmp_path / "both").parent
    assert is_bilm(str(folder))
    (folder / "vectors.parquet").touch()
    assert not is_bilm(str(folder)) and is_bilm(str(folder / "bilm.safetensors"))
