"""The whole pipeline, run as users run it: dataset to report, cache, MLflow, user errors."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import mlflow
import pytest
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from flows.commands.diff import compare_runs
from infra.errors import UserError
from tests.factories.cli import (
    ONE_WORKER,
    SMALL,
    SMALL_VECTORS,
    bidaflow,
    tests_server,
    write_dataset,
)
from tests.factories.listeners import Listener, is_loopback, sampled_listeners

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3600)]


@dataclass(frozen=True)
class Retrained:
    """A finished run: its root, data, output, log, and its listening sockets meanwhile."""

    root: Path
    data: Path
    flags: tuple[str, ...]
    output: str
    log: str
    listeners: set[Listener]

    @property
    def client(self) -> MlflowClient:
        return MlflowClient(f"sqlite:///{self.root}/mlflow.db")

    @property
    def report(self) -> Path:
        """The report of the first run."""
        return min((self.root / "reports" / "own").glob("*/report.html"))

    def runs(self, role: str) -> list[Run]:
        """The MLflow runs with this role, in the only experiment."""
        experiment = self.client.get_experiment_by_name("bidaflow/own")
        assert experiment is not None
        return list(
            self.client.search_runs([experiment.experiment_id], f"tags.`bidaflow.role` = '{role}'")
        )


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Retrained:
    """Both variants, trained for one epoch on a small dataset, with no services running."""
    folder = tmp_path_factory.mktemp("retrained")
    root, data = folder / "root", write_dataset(folder / "own")
    data_flags = ("--data.dataset", str(data), "--data.validation-share", "0")
    flags = (*SMALL, *ONE_WORKER, *data_flags)  # with the packaged vectors
    with sampled_listeners(root) as listeners:
        done = bidaflow(root, "retrain", *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    return Retrained(root, data, flags, done.stdout, done.stderr, listeners)


def test_run_prints_table_report_and_next_steps(first: Retrained) -> None:
    for text in (
        "baseline",
        "char",
        "EM",
        "F1",
        "NLL",
        "examples/s",
        "bidaflow up",
        "--data.dataset",
    ):
        assert text in first.output
    assert str(first.report) in first.output
    assert "baseline" in first.report.read_text(encoding="utf-8")


def test_log_has_no_noise_of_the_libraries(first: Retrained) -> None:
    assert "char epoch 1: train nll" in first.log
    for noise in ("temporary server", "Reporting training result", "Cached("):
        assert noise not in first.log


def assert_loopback_only(listeners: set[Listener]) -> None:
    assert {(name, ip) for name, ip in listeners if not is_loopback(ip)} == set()
    assert {"raylet", "gcs_server", "bidaflow"} <= {name for name, _ in listeners}


def test_all_processes_listen_on_loopback_only(first: Retrained) -> None:
    assert_loopback_only(first.listeners)


def test_every_dev_question_is_scored(first: Retrained) -> None:
    dev = json.loads((first.data / "dev.json").read_text(encoding="utf-8"))
    questions = sum(
        len(paragraph["qas"]) for article in dev["data"] for paragraph in article["paragraphs"]
    )
    assert f"own: {questions} dev questions" in first.output


def test_mlflow_has_a_run_per_variant_under_one_parent(first: Retrained) -> None:
    (parent,) = first.runs("parent")
    variants = first.runs("variant")
    assert {run.data.tags["variant"] for run in variants} == {"baseline", "char"}
    assert {run.data.tags["mlflow.parentRunId"] for run in variants} == {parent.info.run_id}
    assert {run.info.status for run in (parent, *variants)} == {"FINISHED"}
    for run in variants:
        assert {"dev/em", "dev/f1", "dev/nll", "dev/avna", "train/nll"} <= set(run.data.metrics)
        assert run.data.params["hidden_size"] == "8"
        artifacts = {file.path for file in first.client.list_artifacts(run.info.run_id)}
        assert {"config.json", "history.json", "predictions.parquet"} <= artifacts


def test_report_links_errors_and_states_the_decision(first: Retrained) -> None:
    text = first.report.read_text(encoding="utf-8")
    assert re.findall(r'href="(\w+\.html)"', text) == ["baseline.html", "char.html"]
    for words in ("was not promoted: it does not exceed the floor", "bidaflow retrain --data."):
        assert words in text
    for run in first.runs("variant"):
        page = first.report.with_name(f"{run.data.tags['variant']}.html").read_text("utf-8")
        assert 'href="report.html"' in page
        kept = Path(first.client.download_artifacts(run.info.run_id, "errors.html"))
        assert "report.html" not in kept.read_text("utf-8"), "it is alone there"


def test_parent_run_shows_scores_decision_and_report(first: Retrained) -> None:
    (parent,) = first.runs("parent")
    best = max(run.data.metrics["dev/f1"] for run in first.runs("variant"))
    assert parent.data.metrics["dev/f1"] == pytest.approx(best)
    assert parent.data.tags["variants"] == "baseline, char"
    assert "was not promoted" in parent.data.tags["decision"]
    # No server shows the run, so the link leads to the file.
    assert first.report.as_uri() in parent.data.tags["mlflow.note.content"]
    kept = Path(first.client.download_artifacts(parent.info.run_id, "report.html"))
    url = rf"http://127\.0\.0\.1:\d+/\S+/runs/{parent.info.run_id}/artifacts/char\.html"
    assert re.search(rf'<a href="{url}"', kept.read_text("utf-8"))
    errors = Path(first.client.download_artifacts(parent.info.run_id, "char.html"))
    assert "/artifacts/report.html" in errors.read_text("utf-8")
    names = {run.info.run_name for run in first.runs("variant")}
    flow_run = parent.info.run_name
    assert names == {f"{variant} · seed 0 · {flow_run}" for variant in ("baseline", "char")}


def test_datasets_in_mlflow_have_rows_and_columns(first: Retrained) -> None:
    for run in first.runs("variant"):
        for entry in run.inputs.dataset_inputs:
            assert json.loads(entry.dataset.profile)["num_rows"] > 0
            columns = json.loads(entry.dataset.schema)["mlflow_colspec"]
            assert "question" in {column["name"] for column in columns}


def test_diff_compares_two_runs_by_answer(
    first: Retrained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIDAFLOW_ROOT", str(first.root))
    comparison, page = compare_runs("bidaf-own/1", "bidaf-own/2")
    scores = [run.data.metrics["dev/f1"] for run in first.runs("variant")]
    questions = sum(change.questions for change in comparison.changes)
    assert f"{questions} dev questions" in first.output
    assert abs(comparison.gain.mean) == pytest.approx(abs(scores[0] - scores[1]), abs=1e-3)
    assert page.parent == first.root / "reports" and "Correct answers" in page.read_text("utf-8")
    with pytest.raises(UserError, match="MLflow has no run 'nobody'"):
        compare_runs("bidaf-own/1", "nobody")


def test_best_variant_is_decided_on_with_a_reason(first: Retrained) -> None:
    runs = {run.info.run_id: run for run in first.runs("variant")}
    challenger = first.client.get_model_version_by_alias("bidaf-own", "challenger")
    best = runs[challenger.run_id]
    assert best.data.metrics["dev/f1"] == max(run.data.metrics["dev/f1"] for run in runs.values())
    assert "does not exceed the floor" in best.data.tags["promotion"]
    (parent,) = first.runs("parent")
    for run in (parent, best):
        artifacts = {file.path for file in first.client.list_artifacts(run.info.run_id)}
        assert {"decision.json", "decision.md"} <= artifacts


def test_runs_link_to_no_page_of_a_temporary_server(first: Retrained) -> None:
    for run in (*first.runs("parent"), *first.runs("variant")):
        assert "prefect.flow_run_id" in run.data.tags
        assert "prefect.flow_run_url" not in run.data.tags
        assert "flow-run" not in run.data.tags["mlflow.note.content"]


def test_logged_model_answers_raw_text(first: Retrained) -> None:
    mlflow.set_tracking_uri(f"sqlite:///{first.root}/mlflow.db")
    model = mlflow.pyfunc.load_model("models:/bidaf-own/2")
    context = "Druwekos came into the world in Corgubost."
    (row,) = model.predict([{"question": "Where was Druwekos born?", "context": context}])
    assert row["answer"] == (context[row["start"] : row["end"]] if row["start"] >= 0 else "")
    assert 0 <= row["no_answer_probability"] <= 1


def test_leaves_no_checkpoints_and_no_pickles(first: Retrained) -> None:
    assert list((first.root / "ray").iterdir()) == []
    stages = first.root / "stages"
    assert not list(stages.rglob(".building-*"))
    suffixes = {file.suffix for file in stages.rglob("*") if file.is_file()}
    assert suffixes <= {".json", ".parquet", ".arrow", ".safetensors", ".html"}


def test_unchanged_it_trains_nothing_and_says_so(prefect_server: None, first: Retrained) -> None:
    unused = first.data / "2026-12.json"
    unused.touch()
    again = bidaflow(first.root, "retrain", *first.flags, **tests_server())
    unused.unlink()
    assert again.returncode == 0, again.stderr
    assert "Nothing to do" in again.stdout
    line = " ".join(again.stdout.split())
    assert "Not used, as the names begin with neither train nor dev: 2026-12.json" in line
    assert "Finished in state Completed" in again.stdout + again.stderr
    assert len(first.runs("variant")) == 2


@pytest.mark.full
def test_two_workers_listen_on_loopback_only(tmp_path: Path) -> None:
    """Their group meets in a file."""
    data = ("--data.dataset", str(write_dataset(tmp_path / "own")), "--variants", "char")
    two_workers = ("--resources.workers", "2", "--vectors.source", SMALL_VECTORS)
    with sampled_listeners(tmp_path / "root") as listeners:
        done = bidaflow(tmp_path / "root", "retrain", *SMALL, *data, *two_workers)
    assert done.returncode == 0, done.stderr
    assert_loopback_only(listeners)
