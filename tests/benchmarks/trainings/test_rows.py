"""The rows of tables that compare finished trainings."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.trainings.rows import Row, rows_of
from benchmarks.trainings.trained import Trained
from tests.factories.finished_trainings import fact_stages, write_manifest
from tests.factories.training_data import small


def trained(
    root: Path, name: str, negatives: int = 0, own_set: str = "support", **changes: Any
) -> Trained:
    """A training with changed settings."""
    variant = small(**{"epochs": 12, **changes})
    return Trained(write_manifest(fact_stages(root, negatives, own_set), name, variant))


def titles(rows: list[Row]) -> list[str]:
    return [row.title for row in rows]


def test_seeds_share_a_row(tmp_path: Path) -> None:
    seeds = [trained(tmp_path, f"{seed}", seed=seed) for seed in (2, 1)]
    (row,) = rows_of(seeds)
    assert row.title == "char, 12 epochs"
    assert [trained.seed for trained in row.trainings] == [1, 2]


def test_rows_are_named_after_what_differs(tmp_path: Path) -> None:
    constant = trained(tmp_path, "a", seed=0)
    linear = trained(tmp_path, "b", seed=1, schedule="linear", decay_epochs=2.0)
    assert titles(rows_of([constant, linear])) == [
        "char, schedule constant, decay_epochs None, 12 epochs",
        "char, schedule linear, decay_epochs 2.0, 12 epochs",
    ]
    more = trained(tmp_path, "c", negatives=30)
    assert titles(rows_of([constant, more])) == [
        "char, questions 1,000, negatives 0, 12 epochs",
        "char, questions 1,030, negatives 30, 12 epochs",
    ]


def test_budget_counts_not_the_kept_epoch(tmp_path: Path) -> None:
    rows = rows_of([trained(tmp_path, "a", epochs=3), trained(tmp_path, "b", epochs=12)])
    assert titles(rows) == ["char, 3 epochs", "char, 12 epochs"], "both kept epoch 1"


def test_refuses_a_seed_given_twice(tmp_path: Path) -> None:
    twice = [trained(tmp_path, name, seed=1) for name in ("a", "b")]
    with pytest.raises(SystemExit, match=r"Two trainings are char, 12 epochs, seed 1\. Give one"):
        rows_of(twice)


def test_own_sets_have_their_names(tmp_path: Path) -> None:
    sets = [trained(tmp_path, name, own_set=name) for name in ("wiki-50", "wiki-100")]
    assert titles(rows_of(sets)) == [
        "char, vectors wiki-50/vectors.parquet, 12 epochs",
        "char, vectors wiki-100/vectors.parquet, 12 epochs",
    ]
