"""A prepared corpus as ids: both directions, a held-out part, and classes of any vocabulary."""

import json
from pathlib import Path

import numpy as np
import pytest

from infra.errors import UserError
from tasks.embeddings.training.encode_corpus import HELD_OUT, TRAIN, EncodedCorpus, encode_corpus
from tests.factories.corpus import corpus_of


def prepared(folder: Path, lines: list[list[str]]) -> Path:
    folder.mkdir()
    words = sum(map(len, lines))
    manifest = {"facts": {"words": words, "paragraphs": len(lines)}}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return corpus_of(folder, lines)


def test_parts_have_both_directions(tmp_path: Path) -> None:
    lines = [["the", "owl", f"n{number}"] for number in range(250)]
    corpus = prepared(tmp_path / "corpus", lines)
    (tmp_path / "out").mkdir()
    facts = encode_corpus(tmp_path / "out", corpus)
    assert facts == {"words": 744, "held_out_words": 6, "interval": 100}
    encoded = EncodedCorpus(corpus, tmp_path / "out")
    train, held_out = (encoded.load(part, ["owl", "the"]) for part in (TRAIN, HELD_OUT))
    for part, kept in ((held_out, [lines[99], lines[199]]), (train, lines[:2])):
        assert [word_at(part, n) for n in part.forward[1:4]] == kept[0]
        assert [word_at(part, n) for n in part.backward[1:4]] == kept[0][::-1]
        assert [word_at(part, n) for n in part.backward[5:8]] == kept[1][::-1]
        assert part.forward[[0, 4]].tolist() == part.backward[[0, 4]].tolist() == [0, 0]
    assert len(train.forward) == len(train.backward) == 744 + 248
    # Classes follow the vocabulary's order; words outside it share class 1.
    assert train.classes[train.forward[:4]].tolist() == [0, 3, 2, 1]


def word_at(corpus: object, number: int) -> str:
    characters = corpus.characters[number]  # type: ignore[attr-defined]
    return bytes(characters[(characters < 256)].astype(np.uint8).tolist()).decode()


def test_corpus_without_enough_paragraphs_is_rejected(tmp_path: Path) -> None:
    corpus = prepared(tmp_path / "corpus", [["one", "two"]] * 99)
    with pytest.raises(UserError, match=r"has 99 paragraphs, .* at least 100"):
        encode_corpus(tmp_path, corpus)
