"""Language models are found by name, file or folder; other names are refused."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.artifacts.shared_folder import shared_folder
from infra.errors import UserError
from infra.settings import settings
from tasks.embeddings.contextual.select_bilm import read_bilm
from tasks.embeddings.contextual.source import (
    ReleasedWeights,
    find_bilm,
    find_start_bilm,
    is_bilm,
)
from tests.factories.language_models import CONFIG, write_bilm
from tests.factories.permissions import lock


def test_trained_models_are_found_by_name_or_path(root: Path, tmp_path: Path) -> None:
    file = write_bilm(tmp_path / "mine")
    assert find_bilm(str(file)) == find_bilm(str(file.parent)) == file
    published = write_bilm(root / "embeddings" / "support", lower_case=True)
    assert find_bilm("support") == find_start_bilm("support") == published
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
    with pytest.raises(UserError, match="released weights have no softmax to continue"):
        find_start_bilm(str(tmp_path))


def test_prefix_distinguishes_models_of_one_folder(root: Path, tmp_path: Path) -> None:
    for name in ("small_options.json", "small_weights.hdf5", "small_5.5B_options.json"):
        (tmp_path / name).touch()
    small = ReleasedWeights(tmp_path / "small_options.json", tmp_path / "small_weights.hdf5")
    assert find_bilm(str(tmp_path)) == find_bilm(str(small.weights)) == small
    (tmp_path / "small_5.5B_weights.hdf5").touch()
    assert find_bilm(str(small.weights)) == small
    (tmp_path / "own.hdf5").touch()
    with pytest.raises(UserError, match=r"2 files named \*options\.json beside own\.hdf5\. Name "):
        find_bilm(str(tmp_path / "own.hdf5"))
    assert is_bilm(str(tmp_path)), "so that the error says what to name"
    with pytest.raises(UserError, match=r"it has 3 \.hdf5 files, so name one"):
        find_bilm(str(tmp_path))


@pytest.mark.usefixtures("store")
def test_models_of_other_machines_are_found(other_machine: Callable[[], None]) -> None:
    folder = settings().root.resolve() / "embeddings" / "support"
    with shared_folder(folder):
        folder.mkdir(parents=True)
        for name in ("bilm.safetensors", "small_options.json", "small_weights.hdf5"):
            (folder / name).write_bytes(b"content")
    address = f"{settings().address}/embeddings/support"
    for name in ("support", address, f"{address}/bilm.safetensors"):
        other_machine()
        shutil.rmtree(settings().root.resolve(), ignore_errors=True)
        assert is_bilm(name)
        file = find_bilm(name)
        assert file == settings().root.resolve() / "embeddings" / "support" / "bilm.safetensors"
        assert file.read_bytes() == b"content"
    shutil.rmtree(settings().root.resolve())
    released = find_bilm(f"{address}/small_weights.hdf5")
    assert isinstance(released, ReleasedWeights)
    assert released.options.is_file() and released.weights.is_file()
    assert not is_bilm(f"{address}s") and not is_bilm("..")


def test_other_names_are_refused(root: Path) -> None:
    with pytest.raises(UserError, match=r"^No language model gone\. Expected the name of one"):
        find_bilm("gone")
    assert not is_bilm("glove-6b-50d")
    assert is_bilm("gone/bilm.safetensors"), "so that the error says what is missing"


@pytest.mark.parametrize("name", ["~nosuchuser/elmo", "x" * 300, "{}/locked"])
def test_unreadable_path_is_refused(
    name: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(tmp_path / "locked", monkeypatch)
    name = name.format(tmp_path)
    for find in (find_bilm, is_bilm):
        with pytest.raises(UserError, match=f"^{name} can't be read "):
            find(name)


def test_folder_with_word_vectors_is_no_language_model(root: Path, tmp_path: Path) -> None:
    folder = write_bilm(tmp_path / "both").parent
    assert is_bilm(str(folder))
    (folder / "vectors.parquet").touch()
    assert not is_bilm(str(folder)) and is_bilm(str(folder / "bilm.safetensors"))
