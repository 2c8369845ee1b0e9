"""Where trainings start from, and what suits their data."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from prefect import flow

from flows.common.data import Splits
from flows.common.parameters import DataParameters
from flows.common.training import first_found, suited_to, unsuited
from infra.artifacts.stage import Output
from models.configs.presets import CHAR
from tests.factories.stages import in_flow

pytestmark = pytest.mark.usefixtures("prefect_server", "root")


def test_log_says_how_few_questions_are_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("prefect"), "propagate", True)
    split = Output(tmp_path, {"questions": 3_000}, False)
    splits = Splits(DataParameters(dataset="own.json"), "own", split, split, split)
    mine = replace(CHAR, name="mine")
    with caplog.at_level(logging.INFO):
        char, unchanged = in_flow(lambda: suited_to([CHAR, mine], splits, {"patience": 5}), "few")
    assert (char.training.optimizer, char.training.learning_rate) == ("adam", 0.001)
    assert char.training.patience is None, "the choice of the user is set elsewhere"
    assert unchanged is mine
    (line,) = (text for text in caplog.messages if "training questions" in text)
    assert line.startswith(
        "own has 3,000 training questions, so the presets are trained with optimizer adam, "
        "learning_rate 0.001. "
    )


def test_retry_starts_from_the_same_model() -> None:
    """The alias `champion` moves to the model that the first attempt has trained."""
    found: list[str] = []

    @flow(name="starting", retries=1)
    def starting(champions: list[str]) -> None:
        found.append(first_found("models:/made@champion", champions.pop(0)))
        if champions:
            raise RuntimeError("interrupted after its promotion")

    starting(["version 4", "version 5"])
    starting(["version 5"])
    assert found == ["version 4", "version 4", "version 5"]


@pytest.mark.parametrize(
    ("optimizer", "learning_rate", "questions", "problem"),
    [
        ("adadelta", 0.5, 50_000, ""),
        ("adadelta", 0.001, 50_000, "learns next to nothing"),
        ("adadelta", 0.5, 300, "these are 300"),
        ("adam", 0.001, 300, ""),
    ],
)
def test_settings_that_learn_little_are_named(
    optimizer: str, learning_rate: float, questions: int, problem: str
) -> None:
    changed = CHAR.with_changes(optimizer=optimizer, learning_rate=learning_rate)
    found = unsuited(changed.training, questions)
    assert problem in found and bool(found) == bool(problem)
