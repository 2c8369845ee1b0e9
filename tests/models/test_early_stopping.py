"""When a training stops, and the reason it reports."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.configs.variant import TrainingConfig
from models.early_stopping import best_epoch, is_out_of_time, stop_reason

CONFIG = TrainingConfig(epochs=9, patience=2, stop_at_f1=75.0, max_minutes=1.5)


@pytest.mark.parametrize(
    ("f1s", "seconds", "reason"),
    [
        ([50.0], 0, None),
        ([50.0, 50.0], 0, None),
        ([60.0, 50.0, 59.9], 0, "not improved for 2 epoch(s); the best was 60.00 after epoch 1"),
        ([60.0, 60.0, 60.0], 0, "not improved for 2 epoch(s)"),
        ([60.0, 50.0, 60.1], 0, None),
        ([60.0, 75.0], 0, "validation F1 75.00 reached stop_at_f1 (75)"),
        ([60.0], 90, "the time limit of 1.5 minute(s) was reached"),
        ([60.0], 89.9, None),
        ([float(i) for i in range(9)], 0, "all 9 epoch(s) were completed"),
    ],
)
def test_reports_the_reason_to_stop(f1s: list[float], seconds: float, reason: str | None) -> None:
    actual = stop_reason(CONFIG, f1s, seconds)
    assert (actual is None) == (reason is None)
    assert reason is None or reason in str(actual)


@given(f1s=st.lists(st.just(math.nan), min_size=1, max_size=5), seconds=st.floats(0, 1e9))
def test_runs_all_epochs_without_validation_or_budget(f1s: list[float], seconds: float) -> None:
    config = TrainingConfig(epochs=5)
    assert (stop_reason(config, f1s, seconds) is not None) == (len(f1s) == 5)
    assert not is_out_of_time(config, seconds)


@given(f1s=st.lists(st.floats(0, 100), min_size=1))
def test_best_epoch_is_first_with_highest_f1(f1s: list[float]) -> None:
    best = best_epoch(f1s)
    assert f1s[best - 1] == max(f1s)
    assert max(f1s) not in f1s[: best - 1]
