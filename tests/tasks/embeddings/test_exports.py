"""Sets in their place, and in the formats of other tools."""

import os
from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors

from tasks.embeddings import exports
from tasks.embeddings.exports import FILES, ExportFormat, publish_vectors
from tasks.embeddings.wordset import Subwords, WordSet
from tasks.vectors import load_vectors, write_vectors

WORDS = ["owl", "straße", "10,000", "''"]


def made(folder: Path, with_subwords: bool) -> WordSet:
    folder.mkdir()
    rng = np.random.default_rng(0)
    chosen = WordSet(WORDS, (rng.standard_normal((4, 5)) * 1e-3).astype(np.float32))
    write_vectors(folder, chosen, {"method": "cbow"})
    if with_subwords:
        Subwords(rng.random((7, 5), np.float32), 3, 6).save(folder)
    return chosen


@pytest.mark.parametrize("form", FILES)
def test_gensim_and_the_pipeline_read_what_is_exported(tmp_path: Path, form: ExportFormat) -> None:
    chosen = made(tmp_path / "made", with_subwords=False)
    file = publish_vectors(tmp_path / "made", tmp_path / "named", [form])[1]
    read = KeyedVectors.load_word2vec_format(
        str(file), binary=form == "word2vec-binary", no_header=form == "glove"
    )
    assert read.index_to_key == WORDS
    np.testing.assert_array_equal(read.vectors, chosen.vectors)
    ours = load_vectors(str(file))
    assert ours.words == WORDS
    np.testing.assert_array_equal(ours.vectors, chosen.vectors)


def test_nothing_of_an_earlier_set_is_left(tmp_path: Path) -> None:
    made(tmp_path / "first", with_subwords=True)
    files = publish_vectors(tmp_path / "first", tmp_path / "named", ["glove"])
    assert [file.name for file in files] == ["vectors.parquet", "subwords.safetensors", "glove.txt"]
    made(tmp_path / "second", with_subwords=False)
    publish_vectors(tmp_path / "second", tmp_path / "named", [])
    assert [file.name for file in (tmp_path / "named").iterdir()] == ["vectors.parquet"]


def broken_off(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_is_broken_off_leaves_the_earlier_set_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "first", with_subwords=False)
    made(tmp_path / "second", with_subwords=True)
    named = tmp_path / "named"
    publish_vectors(tmp_path / "first", named, ["glove"])
    earlier = {file.name: file.read_bytes() for file in named.iterdir()}
    monkeypatch.setattr(exports, "export", broken_off)
    with pytest.raises(KeyboardInterrupt):
        publish_vectors(tmp_path / "second", named, ["glove"])
    assert {file.name: file.read_bytes() for file in named.iterdir()} == earlier
    replace, moved = os.replace, []

    def broken_off_later(source: Path, target: Path) -> None:
        assert not (named / "vectors.parquet").exists(), "a set is whole before it can be read"
        moved.append(target.name)
        if target.name == "vectors.parquet":
            broken_off()
        replace(source, target)

    monkeypatch.setattr(os, "replace", broken_off_later)
    with pytest.raises(KeyboardInterrupt):
        publish_vectors(tmp_path / "second", named, [])
    assert moved == ["subwords.safetensors", "vectors.parquet"]
    assert [path.name for path in named.iterdir()] == ["subwords.safetensors"]
