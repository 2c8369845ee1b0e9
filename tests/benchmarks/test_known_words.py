"""What a model knows of unseen text."""

from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.known_words import measure
from tests.factories.cli import write_dataset


def test_more_words_cover_more_of_unseen_text(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "own", 1, 1, 2)
    files = {"train": data / "train.json", "unseen": [data / "dev.json"]}
    root = tmp_path / "root"
    root.mkdir()
    none, some = measure(Namespace(**files, first=[0, 2000], trained=None), root)
    assert none["dev.json"]["tokens_with_vector"] < some["dev.json"]["tokens_with_vector"] < 1
    assert some["words"] > 2000 > none["words"]
    assert some["stored_mb"] == pytest.approx(some["float32_mb"] / 2, abs=0.1)
