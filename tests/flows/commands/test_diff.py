"""Names of runs whose answers are compared."""

import re
from pathlib import Path

import pytest

from flows.commands.diff import only_run, scored_run
from infra.errors import UserError
from tasks.tracking.lineage import FinishedStage, RecordedRun


def recorded(number: str, dataset: str, *models: str) -> RecordedRun:
    name, experiment = "char · seed 0 · amber-fox", f"bidaflow/{dataset}"
    stage, started = f"key-{number}", "2026-11-24 03:00"
    return RecordedRun(number, name, experiment, "FINISHED", started, "parent", stage, {}, models)


RUNS = [
    recorded("1", "tickets", "bidaf-tickets/1", "bidaf-tickets@champion"),
    recorded("2", "tiny", "bidaf-tiny/1", "bidaf-tiny@champion"),
]


@pytest.mark.parametrize("name", ["2", "bidaf-tiny/1", "bidaf-tiny@champion"])
def test_run_is_found_by_id_version_or_alias(name: str) -> None:
    assert only_run(RUNS, name) is RUNS[1]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("champion", "Give the id of one of them, or for example bidaf-tickets@champion."),
        ("parent", "Give the id of one of them."),
    ],
)
def test_ambiguous_name_lists_its_runs(name: str, remedy: str) -> None:
    listed = "char · seed 0 · amber-fox 1, char · seed 0 · amber-fox 2"
    parent = RecordedRun("parent", "parent", "", "FINISHED", "", None, None, {}, ())
    with pytest.raises(UserError, match=re.escape(f"{name} matches 2 runs ({listed}). {remedy}")):
        only_run([*RUNS, parent], name)


def test_run_that_answers_no_questions_is_refused() -> None:
    trained = FinishedStage(Path("stages/train-embeddings/key-1"), {})
    with pytest.raises(UserError, match="1 is a run of train-embeddings, which answers no quest"):
        scored_run({trained.name: trained}, RUNS, "1")
