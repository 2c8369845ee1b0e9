"""The outcomes of a comparison that is under way, and its estimated time left."""

from pathlib import Path
from typing import Any, cast

import pytest

from flows.common.compared import ComparedVariant, Outcomes
from flows.common.training import Training
from infra.artifacts.stage import Output
from infra.errors import RetryableError, UserError
from models.configs.presets import preset
from tasks.reports.comparison import Cell, CellTrainings, Missing

BASELINE, CHAR = (Cell("d", "v", name) for name in ("baseline", "char"))


def training(name: str, seed: int) -> Training:
    """A training of which only the configuration matters here."""
    nothing = cast("Any", None)
    return Training(preset(name).with_changes(seed=seed), nothing, nothing)


GRID = [(cell, training(cell.variant, seed)) for cell in (BASELINE, CHAR) for seed in (0, 1)]


def result(number: int, seconds: float, cached: bool = False) -> ComparedVariant:
    facts = {"scores": {"seconds": seconds}}
    trained, errors = (Output(Path(f"{name}{number}"), facts, cached) for name in ("t", "e"))
    return ComparedVariant(*GRID[number], trained, errors)


def test_finished_trainings_are_in_the_grids_order() -> None:
    outcomes = Outcomes(GRID)
    outcomes.ended[3] = result(3, 5)
    outcomes.ended[2] = UserError("char diverged.")
    outcomes.ended[0] = result(0, 5)
    assert outcomes.cells == [
        CellTrainings(BASELINE, [Path("t0")], [Path("e0")]),
        CellTrainings(CHAR, [Path("t3")], [Path("e3")]),
    ]
    assert Outcomes(GRID).cells == [CellTrainings(BASELINE, [], []), CellTrainings(CHAR, [], [])]
    assert outcomes.missing == [
        Missing(BASELINE, 1, None),
        Missing(CHAR, 0, "char diverged."),
    ]


def test_crash_is_shown_with_its_type_in_one_line() -> None:
    outcomes = Outcomes(GRID, {1: RuntimeError("worker died\nlong traceback")})
    assert outcomes.missing[1].error == "RuntimeError: worker died"
    assert Outcomes(GRID, {1: OSError()}).missing[1].error == "OSError: "


def test_failures_other_than_mistakes_are_retried() -> None:
    mistake = UserError("patience needs a validation split")
    error = Outcomes(GRID[:2], {0: result(0, 5), 1: mistake}).failure("page.html")
    assert type(error) is UserError
    assert str(error).startswith("1 of 2 trainings failed:\nbaseline · v · d · seed 1: patience")
    assert "The page has the others: page.html." in str(error)
    crash = RuntimeError("worker died")
    ended = {0: mistake, 1: crash, 2: result(2, 5), 3: result(3, 5)}
    assert type(Outcomes(GRID, ended).failure("page.html")) is RetryableError
    assert Outcomes(GRID[:2], {1: crash, 0: mistake}).errors == [crash, mistake]


@pytest.mark.parametrize(
    ("ended", "seconds", "left"),
    [
        ({}, 100.0, ""),
        ({0: result(0, 60, cached=True)}, 2.0, ""),
        # One baseline took 60 s, so the three others take as long.
        ({0: result(0, 60)}, 60.0, "3:00 left"),
        # Two trainings ran at a time.
        ({0: result(0, 60), 2: result(2, 180)}, 120.0, "2:00 left"),
        # The cached one does not tell how fast this run is.
        ({0: result(0, 60, cached=True), 2: result(2, 180)}, 180.0, "6:00 left"),
        # The failed one is not waited for.
        ({0: result(0, 60), 2: result(2, 180), 1: UserError("no")}, 240.0, "2:00 left"),
        ({number: result(number, 60) for number in range(4)}, 240.0, ""),
    ],
)
def test_time_left_follows_the_finished_trainings(
    ended: dict[int, ComparedVariant | Exception], seconds: float, left: str
) -> None:
    assert Outcomes(GRID, ended).time_left(seconds) == left
