"""`compare-variants` from its data to its result table, also as shown in Prefect and MLflow."""

import json
import sys
from pathlib import Path
from statistics import mean, stdev

import pytest
from mlflow.tracking import MlflowClient

from benchmarks import comparison
from flows.common.parameters import DataParameters, TrainingParameters
from flows.compare_variants import compare_variants
from infra.cluster.allotment import Resources
from tests.factories.cli import write_dataset
from tests.factories.prefect_artifacts import artifacts

pytestmark = [pytest.mark.heavy, pytest.mark.full]

SEEDS = [0, 1]


def test_all_variants_and_seeds_are_in_one_table(
    root: Path,
    prefect_server: None,
    ray_cluster: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = str(write_dataset(tmp_path / "own"))
    compared = compare_variants(
        [DataParameters(dataset=own, validation_share=0)],
        ["baseline", "char"],
        SEEDS,
        training=TrainingParameters(epochs=1, hidden_size=8),
        resources=Resources(cpus_per_worker=1),
    )
    rows = {row["variant"]: row for row in compared["rows"]}
    assert list(rows) == ["baseline", "char"]
    assert rows["baseline"]["F1 gain, 95 %"] == "reference"
    assert "to" in rows["char"]["F1 gain, 95 %"]

    client = MlflowClient(f"sqlite:///{root}/mlflow.db")
    (experiment,) = client.search_experiments(filter_string="name = 'bidaflow/own'")
    runs = client.search_runs([experiment.experiment_id])
    (parent,) = [run for run in runs if run.data.tags["bidaflow.role"] == "parent"]
    trained = [run for run in runs if run is not parent]
    assert {run.data.tags["mlflow.parentRunId"] for run in trained} == {parent.info.run_id}
    assert {run.info.status for run in runs} == {"FINISHED"}
    for name, row in rows.items():
        variant_runs = [run for run in trained if run.data.tags["variant"] == name]
        assert sorted(run.data.params["seed"] for run in variant_runs) == ["0", "1"]
        f1s = [run.data.metrics["dev/f1"] for run in variant_runs]
        assert (row["seeds"], row["F1"]) == ("2", f"{mean(f1s):.2f} ± {stdev(f1s):.2f}")

    page = Path(compared["report"]).read_text(encoding="utf-8")
    kept = {
        name: Path(client.download_artifacts(parent.info.run_id, name))
        for name in ("comparison.html", "comparison.json")
    }
    assert kept["comparison.html"].read_text(encoding="utf-8") == page
    summary = json.loads(kept["comparison.json"].read_text(encoding="utf-8"))
    assert summary["seeds"] == SEEDS
    for row in summary["rows"]:
        assert row["f1"]["mean"] == pytest.approx(mean(row["f1"]["values"]))
        assert row["cell"]["variant"] in page and len(row["f1"]["values"]) == 2
    (artifact,) = artifacts("comparison")
    for row in rows.values():
        assert f"| {' | '.join(row.values())} |" in artifact["data"]

    out = tmp_path / "result.json"
    monkeypatch.setattr(sys, "argv", ["comparison", "--command", "made", str(out)])
    comparison.main()
    written = json.loads(out.read_text(encoding="utf-8"))["tables"]
    vectors = rows["baseline"]["vectors"]
    assert list(written) == [f"own, {vectors}, seed 0", f"own, {vectors}, seed 1"]
    for number, table in enumerate(written.values()):
        f1s = [f"{row['f1']['values'][number]:.2f}" for row in summary["rows"]]
        assert [row["F1"] for row in table] == f1s
        assert table[0]["F1 gain over the row above, 95 %"] == "reference"
    assert out.with_suffix(".png").stat().st_size > 0
