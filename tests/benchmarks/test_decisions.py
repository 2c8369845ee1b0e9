"""The simulations of decisions about equal models."""

import numpy as np

from benchmarks.decisions import changes_in_a_year, starred


def test_students_factor_keeps_the_level() -> None:
    normal, students = starred(2, 400)
    assert students <= 0.05 < 0.08 < normal


def test_champion_changes_less_if_others_decide() -> None:
    """Validation has new questions each week."""
    stopping, everything = np.arange(30) < 10, np.ones(30, dtype=bool)
    today, divided = (
        [changes_in_a_year(year, *parts, new=1.0) for year in range(2)]
        for parts in ((everything, everything), (stopping, ~stopping))
    )
    assert sum(divided) < sum(today)
    assert np.mean(divided) <= 3
