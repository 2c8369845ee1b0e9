"""Questions with words that a set of vectors lacks."""

from pathlib import Path

from tasks.evaluation import load_split
from tasks.outside import holds_unknown, outside_vectors
from tasks.vectors import packaged_words
from tests.tasks.ingested import ingest


def test_case_and_quotes_count_as_the_pipeline_counts_them() -> None:
    known = {"the", "owl", '"', "n't", "do"}
    assert not holds_unknown("The “Owl” don't", known)
    assert holds_unknown("the owls", known)
    assert not holds_unknown("", known)


def test_a_split_is_divided_by_its_questions(tmp_path: Path) -> None:
    folder = ingest(tmp_path / "split", ("An owl.", ["Who is Zorblaxia?", "Who is an owl?"]))
    assert outside_vectors(load_split(folder), packaged_words()).tolist() == [True, False]
