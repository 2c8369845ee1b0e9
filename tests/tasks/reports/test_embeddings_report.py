"""The page that compares sets of word vectors: its stars and its verdict."""

from pathlib import Path
from typing import Any

import pytest

from tasks.reports.embeddings_report import best, verdict, write_embeddings_report
from tests.factories.html import visible_text
from tests.factories.reports import vector_evaluation


def pairs(spearman: float | None, covered: float = 1.0, pairs: int = 1_000) -> dict[str, Any]:
    return {"spearman": spearman, "covered": covered, "pairs": pairs}


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([pairs(0.3), pairs(0.5)], 1),
        ([pairs(0.5), pairs(0.3), None], 0),
        ([pairs(0.50), pairs(0.51)], None),  # not significant
        ([pairs(0.3, pairs=20), pairs(0.5, pairs=20)], None),  # too few pairs
        ([pairs(0.3), pairs(1.0, covered=0.002)], None),  # 2 of 1,000 pairs
        ([pairs(0.3), pairs(0.5), pairs(0.9, covered=0.2)], 1),
        ([pairs(0.55), pairs(0.45)], 0),
        ([pairs(0.55), pairs(0.45), pairs(0.44, pairs=60)], None),  # the last one is uncertain
        ([pairs(0.5), pairs(None)], None),
        ([pairs(0.5)], None),
        ([pairs(0.5), pairs(0.5)], None),
        ([pairs(1.0, pairs=2), pairs(-1.0, pairs=2)], None),
    ],
)
def test_only_a_significant_difference_has_a_star(cells: list[Any], expected: int | None) -> None:
    assert best(cells, "spearman") == expected


def test_accuracies_are_compared_by_their_questions() -> None:
    few, many = (
        [{"accuracy": value, "questions": n, "covered": 0.9} for value in (0.40, 0.45)]
        for n in (100, 10_000)
    )
    assert best(few, "accuracy") is None
    assert best(many, "accuracy") == 1


def page(folder: Path, sets: dict[str, Path], dataset: str | None) -> str:
    write_embeddings_report(folder, list(sets), list(sets.values()), dataset=dataset)
    return visible_text((folder / "embeddings.html").read_text(encoding="utf-8"))


def test_verdict_compares_sets_and_names_the_dataset(tmp_path: Path) -> None:
    sets = {
        "one": vector_evaluation(tmp_path / "1", {"MEN": (0.3, 1), "RW": (0.2, 1)}, 0.981),
        "two": vector_evaluation(tmp_path / "2", {"MEN": (0.5, 1), "RW": (0.9, 0.01)}, 0.25),
    }
    text = page(tmp_path, sets, "own")
    assert "Word-vector evaluation on own one · two" in text
    assert (
        "two has a mean rank correlation of 0.50 with human scores over 1 similarity test; the "
        "others: one 0.30. Of the tokens of own, 98.1 % (one), 25.0 % (two) have a vector."
    ) in text


def test_verdict_on_one_set_without_dataset(tmp_path: Path) -> None:
    one = vector_evaluation(tmp_path / "1", {"MEN": (0.3, 1), "RW": (0.2, 1)})
    text = page(tmp_path, {"one": one}, None)
    assert "0.25 with human scores over 2 similarity tests. No dataset was named" in text
    assert "★" not in text


def test_verdict_says_if_no_test_could_be_used(tmp_path: Path) -> None:
    one = vector_evaluation(tmp_path / "1", {"MEN": (0.3, 0.1)}, 0.9)
    text = page(tmp_path, {"one": one}, "own")
    assert "No similarity test could be used, because there is none of whose pairs the set" in text
    assert "Of the tokens of own, 90.0 % have a vector." in text


def test_verdict_shows_a_homonym_score_of_zero() -> None:
    vectors: dict[str, Any] = {"name": "glove", "similarity": {}, "coverage": {}}
    vectors["homonyms"] = {"mean of context": {"accuracy": 0.0}}
    elmo = vectors | {"name": "elmo", "layer": 1}
    elmo["homonyms"] = {"layer 0": {"accuracy": None}, "layer 1": {"accuracy": 0.7}}
    text = verdict([vectors, elmo], None)
    assert "senses, 0.0 % glove (mean of context), 70.0 % elmo (layer 1) are right" in text
