"""The benchmark of filling, for a few words."""

from pathlib import Path

import pytest

from benchmarks.studies.filling import LINE, measure, write_corpus
from tasks.embeddings.training.corpus import read_vocabulary

NEW = [f"n{number}" for number in range(40)]


def test_every_new_word_occurs_five_times(tmp_path: Path) -> None:
    counts = read_vocabulary(write_corpus(tmp_path, ["the", "of", "and"], NEW), 1)
    lines = (tmp_path / "corpus.txt").read_text("utf-8").splitlines()
    assert {counts[word] for word in NEW} == {5}
    assert sum(counts.values()) == LINE * len(lines) == 1000


@pytest.mark.heavy
@pytest.mark.full
def test_both_ways_fill_all_words(tmp_path: Path) -> None:
    ways = measure(tmp_path, words=500, dimension=30, repeats=1)
    assert ways["rotation"]["filled"] == ways["contexts"]["filled"] == 500
    assert ways["rotation"]["dimension"] == 50 and ways["contexts"]["seconds"] > 0
