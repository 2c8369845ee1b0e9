"""What a training of variants refuses before it reads any data."""

from pathlib import Path

import pytest

from flows.common.data import Splits
from flows.common.parameters import (
    DataParameters,
    TrainingParameters,
    VectorParameters,
    VocabularyParameters,
)
from flows.common.publish import TrainedVariants
from flows.compare_variants import build_grid
from flows.train import announce, checked
from infra.artifacts.stage import Output
from infra.errors import UserError


def test_contextual_vectors_are_checked_first(root: Path) -> None:
    vectors, vocabulary = VectorParameters(contextual="genral"), VocabularyParameters()
    data, message = DataParameters(), r"^No language model genral\."
    with pytest.raises(UserError, match=message):
        checked(data, ["char-elmo"], TrainingParameters(), vectors)
    with pytest.raises(UserError, match=message):
        build_grid([data], [vectors], [("char-elmo", 0)], vocabulary, TrainingParameters(), None)
    assert not (root / "stages").exists()


def test_rejects_a_variant_that_is_listed_twice(root: Path) -> None:
    with pytest.raises(UserError, match=r"^variants contains duplicates\."):
        checked(DataParameters(), ["char", "char"], TrainingParameters(), VectorParameters())
    assert not (root / "stages").exists()


@pytest.mark.parametrize(
    ("dataset", "model", "command"),
    [
        ("tiny", None, "QUESTION --context FILE   ask the champion"),
        ("tickets", None, "--dataset tickets QUESTION --context FILE   ask the champion"),
        (
            "tickets",
            "models:/bidaf-tickets/3",
            "--model models:/bidaf-tickets/3 QUESTION --context FILE   ask this run's best model",
        ),
    ],
)
def test_next_command_asks_a_model_that_exists(
    dataset: str, model: str | None, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"variant": "char", "F1": "1.00"}]
    facts = {"trained": ["char"], "decision": None, "questions": 2, "report": "report.html"}
    announce({"dataset": dataset, "rows": rows, "model": model, **facts})
    assert f"Next       bidaflow ask {command}\n" in capsys.readouterr().out


def test_result_table_fits_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    row = {"variant": "char-selfattn-dot", "EM": "66.00", "F1": "77.00", "NLL": "2.759"}
    row |= {"AvNA": "79.85", "F1 at threshold": "77.12", "AvNA at threshold": "80.23"}
    row |= {"examples/s": "1,139", "training s": "86400", "trained": "before"}
    facts = {"trained": ["char"], "decision": None, "questions": 10_570, "report": "report.html"}
    announce({"dataset": "squad-v2.0-recovered", "rows": [row], "model": None, **facts})
    table, _, _ = capsys.readouterr().out.partition("Report")
    assert max(map(len, table.splitlines())) <= 80
    for words in ("variant", "EM", "F1", "NLL", "AvNA", "examples/s", *list(row.values())[:5]):
        assert words in table
    assert "before" not in table and "…" not in table


def test_best_variant_is_chosen_on_validation(tmp_path: Path) -> None:
    outputs = [
        Output(tmp_path, {"scores": {"dev/f1": dev, "validation/f1": validation}}, False)
        for dev, validation in ((60, 55), (70, 56), (65, 57))
    ]
    for validation, best in ((None, outputs[1]), (outputs[0], outputs[2])):
        splits = Splits(DataParameters(), "own", outputs[0], validation, outputs[0])
        assert TrainedVariants(splits, outputs, outputs[0], []).best is best
