"""Publication of vector sets to a folder, and their export to the formats of other tools."""

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors
from gensim.models.fasttext import load_facebook_vectors

from infra.errors import UserError
from tasks.embeddings.formats import export
from tasks.embeddings.formats.export import (
    FILES,
    ExportFormat,
    publish_bilm,
    publish_vectors,
    require_exportable,
)
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.store import write_vectors
from tasks.embeddings.formats.word_vectors import Subwords, WordSet
from tests.factories.language_models import write_bilm

WORDS = ["owl", "straße", "10,000", "''"]
WORD_FORMATS = [file_format for file_format in FILES if file_format != "fasttext-binary"]


def trained_set(folder: Path, with_subwords: bool, words: list[str] = WORDS) -> WordSet:
    folder.mkdir()
    rng = np.random.default_rng(0)
    vectors = (rng.standard_normal((len(words), 5)) * 1e-3).astype(np.float32)
    subwords = Subwords(rng.random((7, 5), np.float32), 3, 6) if with_subwords else None
    write_vectors(folder, WordSet(words, vectors), {"method": "cbow"})
    if subwords is not None:
        subwords.save(folder)
    return WordSet(words, vectors, subwords)


def read_by_gensim(file: Path, file_format: ExportFormat) -> KeyedVectors:
    return KeyedVectors.load_word2vec_format(
        str(file), binary=file_format == "word2vec-binary", no_header=file_format == "glove"
    )


@pytest.mark.parametrize("file_format", WORD_FORMATS)
def test_gensim_and_pipeline_read_exports_alike(tmp_path: Path, file_format: ExportFormat) -> None:
    word_set = trained_set(tmp_path / "trained", with_subwords=False)
    file = publish_vectors(tmp_path / "trained", tmp_path / "named", [file_format])[1]
    read = read_by_gensim(file, file_format)
    assert read.index_to_key == WORDS
    np.testing.assert_array_equal(read.vectors, word_set.vectors)
    ours = load_vectors(str(file))
    assert ours.words == WORDS
    np.testing.assert_array_equal(ours.vectors, word_set.vectors)


@pytest.mark.parametrize("file_format", WORD_FORMATS)
def test_unexportable_words_are_dropped_and_counted(
    tmp_path: Path, file_format: ExportFormat, caplog: pytest.LogCaptureFixture
) -> None:
    words = ["owl", ". . .", "straße", "at\xa0name", "bee", "\0x"]
    word_set = trained_set(tmp_path / "trained", False, words)
    with caplog.at_level(logging.INFO):
        file = publish_vectors(tmp_path / "trained", tmp_path / "named", [file_format])[1]
    assert "Omitted 3 words from the exports" in caplog.text and "'. . .'" in caplog.text
    ours, theirs = load_vectors(str(file)), read_by_gensim(file, file_format)
    assert ours.words == theirs.index_to_key == ["owl", "straße", "bee"]
    np.testing.assert_array_equal(ours.vectors, word_set.vectors[[0, 2, 4]])
    np.testing.assert_array_equal(theirs.vectors, word_set.vectors[[0, 2, 4]])


def test_gensim_composes_oov_words_from_our_export(tmp_path: Path) -> None:
    word_set = trained_set(tmp_path / "trained", True, ["owl", "\0", "straße", "owlet"])
    assert word_set.subwords is not None
    file = publish_vectors(tmp_path / "trained", tmp_path / "named", ["fasttext-binary"])[2]
    theirs, ours = load_facebook_vectors(str(file)), load_vectors(str(file))
    assert theirs.index_to_key == ours.words == ["owl", "straße", "owlet"]
    np.testing.assert_allclose(theirs.vectors, word_set.vectors[[0, 2, 3]], atol=1e-6)
    np.testing.assert_allclose(ours.vectors, word_set.vectors[[0, 2, 3]], atol=1e-6)
    assert ours.subwords is not None
    for unseen in ("owls", "grün", "x"):
        expected = word_set.subwords.vector(unseen)
        np.testing.assert_allclose(theirs.get_vector(unseen), expected, atol=1e-6)
        np.testing.assert_array_equal(ours.subwords.vector(unseen), expected)


def test_fasttext_export_requires_ngrams() -> None:
    with pytest.raises(UserError, match="'fasttext-binary' needs n-grams, and method 'cbow'"):
        require_exportable(["glove", "fasttext-binary"], "cbow")
    require_exportable(["fasttext-binary"], "fasttext")


def test_published_set_takes_its_space_once(tmp_path: Path) -> None:
    trained_set(tmp_path / "trained", with_subwords=True)
    for _ in range(2):  # the second time, it replaces itself
        files = publish_vectors(tmp_path / "trained", tmp_path / "named", [])
        assert [file.name for file in files] == ["vectors.parquet", "subwords.safetensors"]
        for file in files:
            assert file.samefile(tmp_path / "trained" / file.name)
            assert file.stat().st_nlink == 2
    assert sorted(path.name for path in (tmp_path / "named").iterdir()) == sorted(
        file.name for file in files
    )


def test_publishes_to_a_file_system_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained_set(tmp_path / "trained", with_subwords=True)

    def refuse(self: Path, target: Path) -> None:
        raise OSError("Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    for file in publish_vectors(tmp_path / "trained", tmp_path / "named", []):
        assert file.read_bytes() == (tmp_path / "trained" / file.name).read_bytes()


def test_duplicate_formats_are_written_once(tmp_path: Path) -> None:
    trained_set(tmp_path / "trained", with_subwords=False)
    files = publish_vectors(tmp_path / "trained", tmp_path / "named", ["glove", "glove"])
    assert [file.name for file in files] == ["vectors.parquet", "glove.txt"]
    assert all(file.exists() for file in files)


def test_publishing_removes_the_earlier_set(tmp_path: Path) -> None:
    trained_set(tmp_path / "first", with_subwords=True)
    files = publish_vectors(tmp_path / "first", tmp_path / "named", ["glove"])
    assert [file.name for file in files] == ["vectors.parquet", "subwords.safetensors", "glove.txt"]
    trained_set(tmp_path / "second", with_subwords=False)
    publish_vectors(tmp_path / "second", tmp_path / "named", [])
    assert [file.name for file in (tmp_path / "named").iterdir()] == ["vectors.parquet"]


def test_folder_has_either_vectors_or_a_language_model(tmp_path: Path) -> None:
    named = tmp_path / "named"
    trained_set(tmp_path / "set", with_subwords=True)
    write_bilm(tmp_path / "model")
    publish_vectors(tmp_path / "set", named, ["glove"])
    assert publish_bilm(tmp_path / "model", named) == named / "bilm.safetensors"
    assert [file.name for file in named.iterdir()] == ["bilm.safetensors"]
    publish_vectors(tmp_path / "set", named, [])
    assert {file.name for file in named.iterdir()} == {"vectors.parquet", "subwords.safetensors"}


def test_runs_publish_under_one_name_in_turn(tmp_path: Path) -> None:
    (tmp_path / "named" / ".part" / "earlier").mkdir(parents=True)  # left by a killed process
    sets = [tmp_path / name for name in ("first", "second")]
    for folder in sets:
        trained_set(folder, with_subwords=True, words=[folder.name])

    def publish(folder: Path) -> list[Path]:
        return publish_vectors(folder, tmp_path / "named", ["glove", "word2vec"])

    with ThreadPoolExecutor(4) as pool:
        *_, files = pool.map(publish, sets * 6)
    assert set((tmp_path / "named").iterdir()) == set(files)
    (name,) = load_vectors(str(files[0])).words
    for file in files[:2]:
        assert file.samefile(tmp_path / name / file.name)
    assert all(load_vectors(str(file)).words == [name] for file in files[2:])


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_interrupted_publishing_keeps_the_earlier_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained_set(tmp_path / "first", with_subwords=False)
    trained_set(tmp_path / "second", with_subwords=True)
    named = tmp_path / "named"
    publish_vectors(tmp_path / "first", named, ["glove"])
    earlier = {file.name: file.read_bytes() for file in named.iterdir()}
    monkeypatch.setattr(export, "export", interrupt)
    with pytest.raises(KeyboardInterrupt):
        publish_vectors(tmp_path / "second", named, ["glove"])
    assert {file.name: file.read_bytes() for file in named.iterdir()} == earlier
    replace, moved = os.replace, []

    def interrupt_later(source: Path, target: Path) -> None:
        if source.parent.name == ".part":
            assert not (named / "vectors.parquet").exists(), "readers never see an incomplete set"
            moved.append(target.name)
            if target.name == "vectors.parquet":
                interrupt()
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupt_later)
    with pytest.raises(KeyboardInterrupt):
        publish_vectors(tmp_path / "second", named, [])
    assert moved == ["subwords.safetensors", "vectors.parquet"]
    assert {file.name: file.read_bytes() for file in named.iterdir()} == earlier
