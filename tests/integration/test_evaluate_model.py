"""`bidaflow evaluate`: a registered model's scores on labelled questions."""

import json
from pathlib import Path

import mlflow
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mlflow.tracking import MlflowClient

from flows.evaluate_model import announce, evaluate_model
from infra.artifacts.stage import result_of
from infra.errors import UserError
from infra.settings import settings
from tasks.data.ingested import fingerprint
from tasks.tracking import model_logging, registry, runs
from tests.factories.logged_models import CONTEXT, save_untrained_model
from tests.factories.tracking_store import parent_run

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture
def model(root: Path, tmp_path: Path) -> str:
    """An untrained model, registered as version 1 of bidaf-own, that knows one context."""
    saved = tmp_path / "saved"
    saved.mkdir()
    folder = save_untrained_model(saved)
    known = pa.table({"fingerprint": pa.array([fingerprint(CONTEXT)], pa.binary(16))})
    pq.write_table(known, folder / registry.TRAINED_CONTEXTS)
    parent = parent_run("flow", "own")
    run_id = runs.start_variant_run(parent, runs.VariantRun("char", "stage", {}, {}, []))
    model_logging.log_model(run_id, folder, "bidaf-own", step=0)
    return "bidaf-own/1"


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Three questions about two contexts."""
    other = "The oak grows in the garden."
    rows = [
        ("a", CONTEXT, "Where does the mill stand?", "hill"),
        ("b", CONTEXT, "What is by the river?", "inn"),
        ("c", other, "Where does the oak grow?", "garden"),
    ]
    file = tmp_path / "november.jsonl"
    lines = [
        {
            "id": id,
            "context": context,
            "question": question,
            "answers": [{"text": answer, "answer_start": context.index(answer)}],
        }
        for id, context, question, answer in rows
    ]
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return str(file)


def test_scores_are_shown_by_slice_and_logged(
    model: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = evaluate_model(data, model=model)
    counts = {row["questions"]: row["count"] for row in summary["rows"]}
    assert (counts["all"], counts["contexts not trained on"]) == ("3", "1")
    assert (counts["question word where"], counts["question word what"]) == ("2", "1")
    answers = pq.read_table(summary["answers"])
    assert answers["id"].to_pylist() == ["a", "b", "c"]

    mlflow.set_tracking_uri(settings().tracking_uri)
    (run,) = mlflow.search_runs(experiment_names=["bidaflow/evaluations"], output_format="list")
    mean = 100 * sum(answers["f1"].to_pylist()) / 3
    assert run.data.metrics["f1"] == pytest.approx(mean)
    assert f"{mean:.2f}" == summary["rows"][0]["F1"]
    names = ("dataset", "questions", "model", "version", "no_answer", "expected_no_answer")
    values = ("november", "3", "bidaf-own", "1", "argmax", "as in training")
    assert tuple(run.data.tags[name] for name in names) == values
    assert run.info.status == "FINISHED"
    files = MlflowClient().list_artifacts(run.info.run_id)
    assert [file.path for file in files] == ["answers.parquet"]

    capsys.readouterr()
    announce(summary)
    printed = capsys.readouterr().out
    assert "bidaf-own version 1 on november" in printed and "contexts not trained on" in printed


def test_only_dev_files_of_a_folder_count(model: str, data: str, tmp_path: Path) -> None:
    """All of its questions are unanswerable, and the model always answers."""
    folder = tmp_path / "folder"
    folder.mkdir()
    Path(data).rename(folder / "train.jsonl")
    row = {"id": "d", "context": "A new text.", "question": "Who?", "answers": []}
    (folder / "dev.jsonl").write_text(json.dumps(row), encoding="utf-8")
    first, *_ = evaluate_model(str(folder), model=model)["rows"]
    assert (first["count"], first["F1"], first["AvNA"]) == ("1", "0.00", "0.00")


def test_failed_logging_ends_the_run(
    model: str, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UserError("The store refuses access.")

    monkeypatch.setattr(runs, "log_artifacts", refuse)
    with pytest.raises(UserError, match="refuses access"):
        result_of(evaluate_model(data, model=model, return_state=True))
    mlflow.set_tracking_uri(settings().tracking_uri)
    (run,) = mlflow.search_runs(experiment_names=["bidaflow/evaluations"], output_format="list")
    assert run.info.status == "FAILED"


def test_missing_champion_or_threshold_is_named(model: str, data: str) -> None:
    with pytest.raises(UserError, match="november has no champion"):
        result_of(evaluate_model(data, return_state=True))
    with pytest.raises(UserError, match="this model has no threshold"):
        result_of(evaluate_model(data, model=model, no_answer="threshold", return_state=True))
