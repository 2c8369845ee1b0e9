"""Words of a corpus that ran together at a lost space."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tasks.embeddings.training.corpus import prepare_corpus
from tasks.embeddings.training.corpus_files import TextFile
from tasks.embeddings.training.joined_words import find_joined

FREQUENT = dict.fromkeys(["diabetes", "the", "anti", "myeloma", "blood", "stream", "sugar"], 300)


@pytest.mark.parametrize(
    ("word", "count", "halves"),
    [
        ("diabetesthe", 10, ("diabetes", "the")),
        ("diabetesthe", 16, None),  # the halves are not much more frequent
        ("antimyeloma", 2, None),  # a prefix
        ("bloodstream", 2, None),  # a word of the packaged set
        ("sugarxyz", 2, None),  # not two words
        ("thethe", 2, None),  # short
    ],
)
def test_joined_words_have_two_frequent_halves(
    word: str, count: int, halves: tuple[str, str] | None
) -> None:
    assert find_joined({**FREQUENT, word: count}).get(word) == halves


def test_best_cut_has_the_most_frequent_rarer_half() -> None:
    counts = {"symptoms": 90, "such": 80, "symptom": 60, "ssuch": 60, "symptomssuch": 2}
    assert find_joined(counts) == {"symptomssuch": ("symptoms", "such")}


@pytest.mark.parametrize("split", [False, True])
def test_joined_words_are_reported_and_split(tmp_path: Path, split: bool) -> None:
    text = "Diabetes is the cause .\n" * 60 + "Of diabetesthe cause\n\nno DiabetesThe cause\n"
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    out.mkdir()
    facts = prepare_corpus(out, [TextFile(tmp_path / "text.txt")], True, split)
    joined = {"words": 1, "occurrences": 2, "examples": [["diabetes the", 2]], "split": split}
    assert facts["joined"] == joined
    lines = (out / "corpus.txt").read_text(encoding="utf-8").splitlines()
    expected = "diabetes the" if split else "diabetesthe"
    assert lines[60:] == [f"of {expected} cause", f"no {expected} cause"]
    table = pq.read_table(out / "words.parquet").to_pydict()
    counts = dict(zip(table["word"], table["count"], strict=True))
    assert counts["diabetes"] == (62 if split else 60)
    assert counts.get("diabetesthe", 0) == (0 if split else 2)
    assert facts["words"] == sum(counts.values()) == sum(len(line.split()) for line in lines)
    assert facts["distinct"] == len(counts)
    assert sorted(path.name for path in out.iterdir()) == ["corpus.txt", "words.parquet"]
