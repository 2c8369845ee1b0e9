"""Two trained variants that are joined, compared with the champion, and asked."""

from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from flows.ensemble import require_same_data
from infra.errors import UserError
from tasks.tracking.lineage import RecordedRun
from tests.factories.cli import ONE_WORKER, SMALL, bidaflow, write_learnable_dataset

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1800)]


@pytest.mark.full
def test_joined_variants_are_one_registered_model(tmp_path: Path) -> None:
    root, data = tmp_path / "root", str(write_learnable_dataset(tmp_path / "own"))
    trained = bidaflow(root, "retrain", "--data.dataset", data, *SMALL, *ONE_WORKER)
    assert trained.returncode == 0, trained.stderr
    twice = bidaflow(root, "ensemble", "char,bidaf-own/1,bidaf-own/2")
    assert twice.returncode == 1 and "Name each run once." in twice.stderr

    done = bidaflow(root, "ensemble", "baseline,char")
    assert done.returncode == 0, done.stderr
    assert "Version 3 (baseline + char)" in done.stdout and "Promotion" in done.stdout
    client = MlflowClient(f"sqlite:///{root}/mlflow.db")
    version = client.get_model_version("bidaf-own", "3")
    metrics = client.get_run(str(version.run_id)).data.metrics
    assert 0 <= metrics["dev/f1"] <= 100 and metrics["validation/f1"] > 0
    assert f"{metrics['dev/f1']:.2f}" in done.stdout

    context = tmp_path / "context.txt"
    context.write_text("Ticket dev 1 was closed. The code was 4711.", encoding="utf-8")
    asked = ("What was the code?", "--context", str(context), "--model", "bidaf-own/3")
    answer = bidaflow(root, "ask", *asked)
    assert answer.returncode == 0, answer.stderr
    differences = bidaflow(root, "diff", "char", "bidaf-own/3")
    assert differences.returncode == 0, differences.stderr
    scores = bidaflow(root, "evaluate", data, "--model", "bidaf-own/3")
    assert scores.returncode == 0 and f"{metrics['dev/f1']:.2f}" in scores.stdout, scores.stderr
    further = ("retrain", "--data.dataset", data, "--training.start-from", "bidaf-own/3")
    refused = bidaflow(root, *further)
    assert refused.returncode == 1 and "is an ensemble" in refused.stderr

    again = bidaflow(root, "ensemble", "baseline,char")
    assert again.returncode == 0 and "decided by an earlier run" in again.stdout
    assert len(client.search_model_versions("name = 'bidaf-own'")) == 3


def test_runs_of_different_data_are_refused() -> None:
    def run(number: str, dev: str) -> RecordedRun:
        digests = {"train.digest": "a", "validation.digest": "b", "dev.digest": dev}
        return RecordedRun(number, "char", "bidaflow/own", "FINISHED", "", None, "s", digests, ())

    require_same_data([run("1", "c"), run("2", "c")], ["1", "2"])
    with pytest.raises(UserError, match="1 and 2 were trained on different data: their dev"):
        require_same_data([run("1", "c"), run("2", "d")], ["1", "2"])
