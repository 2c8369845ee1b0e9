"""`bidaflow predict`: the answers of a registered model to the questions of files."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows.predict import announce, predict
from infra.artifacts.stage import result_of
from infra.errors import UserError
from infra.settings import settings
from tasks.tracking import model_logging, registry, runs
from tests.factories.logged_models import CONTEXT, save_untrained_model
from tests.factories.tracking_store import parent_run

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture
def folder(root: Path, tmp_path: Path) -> Path:
    """The folder of an untrained model, which is registered as the champion of `own`."""
    saved = tmp_path / "saved"
    saved.mkdir()
    folder = save_untrained_model(saved)
    parent = parent_run("flow", "own")
    run_id = runs.start_variant_run(parent, runs.VariantRun("char", "stage", {}, {}, []))
    model_logging.log_model(run_id, folder, "bidaf-own", step=0)
    registry.set_champion(registry.find_version("bidaf-own/1"))
    return folder


@pytest.fixture
def questions(tmp_path: Path) -> str:
    """Three questions, one of them about two contexts, and one without text."""
    rows = [
        {"id": "a", "q": "Where does the mill stand?", "context": CONTEXT},
        {"id": "b", "q": "", "context": CONTEXT},
        {"id": "a", "q": "Where does the mill stand?", "context": "The oak grows."},
        {"id": "c", "q": "Where is the inn?", "context": CONTEXT},
    ]
    file = tmp_path / "questions.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(file)


def test_answers_tasks_and_summary_are_written(
    folder: Path, questions: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, tasks = str(tmp_path / "answers.parquet"), str(tmp_path / "tasks.json")
    options = {"top": 2, "uncertain": 1, "tasks": tasks, "columns": "question=q"}
    summary = predict([questions], "own@champion", output, **options)
    table = pq.read_table(output)
    assert table["id"].to_pylist() == ["a", "b", "c"]
    assert set(table["model"].to_pylist()) == {"bidaf-own"}
    assert set(table["version"].to_pylist()) == {"1"}
    assert [bool(error) for error in table["error"].to_pylist()] == [False, True, False]
    probabilities = dict(zip("abc", table["probability"].to_pylist(), strict=True))
    (task,) = json.loads(Path(tasks).read_text(encoding="utf-8"))
    assert task["data"]["id"] == min("ac", key=probabilities.__getitem__)
    assert not list((settings().root / "ray").glob("*")), "parts are removed in the end"
    capsys.readouterr()
    announce(summary)
    printed = capsys.readouterr().out
    assert "Answered 3 questions by bidaf-own version 1, 1 with errors" in printed
    assert output in printed and tasks in printed

    again = predict([questions], str(folder), str(tmp_path / "a.json"), columns="question=q")
    assert again["model"] == str(folder)
    predictions = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert predictions == dict(zip("abc", table["answer"].to_pylist(), strict=True))


def test_missing_models_are_named(folder: Path, questions: str) -> None:
    with pytest.raises(UserError, match="No version of other has the alias 'champion'"):
        result_of(predict([questions], "other@champion", return_state=True))
    with pytest.raises(UserError, match="is not a model URI"):
        result_of(predict([questions], "other", return_state=True))
