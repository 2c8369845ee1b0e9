"""Retention in a real store: which runs and models are deleted, and which are kept."""

from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from tasks.tracking import model_logging, registry, runs
from tasks.tracking.retention import retire
from tasks.tracking.run_records import recorded_runs
from tests.factories.logged_models import save_untrained_model

pytestmark = pytest.mark.heavy

EXPERIMENT = "bidaflow/made"


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/mlflow.db"


def flow_run(uri: str, number: int, model: Path, status: runs.Status = "FINISHED") -> str:
    """Record a flow run with one trained variant; returns the URI of its model."""
    name = f"flow-{number}"
    parent = runs.parent_run(uri, EXPERIMENT, name, None, name, {})
    run = runs.VariantRun(f"variant-{number}", name, {}, {}, [])
    variant = runs.start_variant_run(uri, parent, run)
    model_uri = model_logging.log_model(uri, variant, model, "bidaf-made", step=0)
    for run in (variant, parent):
        runs.finish(uri, run, status)
    return model_uri


def test_keeps_newest_runs_and_aliased_models(uri: str, tmp_path: Path) -> None:
    model = save_untrained_model(tmp_path)
    models = [flow_run(uri, number, model) for number in range(4)]
    registry.set_champion(uri, registry.get_version(uri, models[0]))
    retired = retire(uri, EXPERIMENT, keep=2)
    assert {run.name for run in retired} == {"flow-1", "variant-1"}
    kept = {run.name for run in recorded_runs(uri)}
    assert kept == {f"{kind}-{i}" for kind in ("flow", "variant") for i in (0, 2, 3)}
    versions = MlflowClient(uri).search_model_versions("name = 'bidaf-made'")
    assert sorted(int(version.version) for version in versions) == [1, 3, 4]
    logged = list((tmp_path / "mlartifacts").rglob("MLmodel"))
    assert len(logged) == 3, "the files of the deleted model are removed"
    assert retire(uri, EXPERIMENT, keep=2) == []
    assert retire(uri, EXPERIMENT, keep=1, kept_stages={"train/flow-2"}) == []
