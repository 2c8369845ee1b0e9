"""MLflow's store below a storage root that is moved."""

import shutil
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from tasks.tracking import model_logging, registry, runs
from tasks.tracking.moved_store import follow_move
from tests.factories.logged_models import save_untrained_model

TEXT = "report.txt"


def uri_in(root: Path) -> str:
    return f"sqlite:///{root}/mlflow.db"


def new_run(root: Path, flow_run: str) -> str:
    follow_move(uri_in(root))
    run_id = runs.parent_run(uri_in(root), "bidaflow/gelöst", flow_run, None, flow_run, {})
    runs.log_text(uri_in(root), run_id, TEXT, flow_run)
    return run_id


@pytest.fixture
def moved(tmp_path: Path) -> tuple[Path, str]:
    """A root that was moved to a folder whose name needs escapes in URIs, and its run."""
    before, after = tmp_path / "before", tmp_path / "after move"
    before.mkdir()
    run_id = new_run(before, "first")
    model = save_untrained_model(tmp_path)
    model_logging.log_model(uri_in(before), run_id, model, "bidaf-moved", step=0)
    before.rename(after)
    return after, run_id


def test_next_run_corrects_the_paths(moved: tuple[Path, str], tmp_path: Path) -> None:
    root, first = moved
    second = new_run(root, "second")
    for run_id, text in ((first, "first"), (second, "second")):
        assert runs.read_text(uri_in(root), run_id, TEXT) == text
    model_id = registry.find_version(uri_in(root), "models:/bidaf-moved/1").model_id
    location = MlflowClient(uri_in(root)).get_logged_model(model_id).artifact_location
    files = root / "mlartifacts" / "bidaflow" / "gelöst" / "models" / model_id / "artifacts"
    assert location == files.as_uri() and files.is_dir()
    assert not (tmp_path / "before").exists()


def test_copy_of_a_root_leaves_the_original_alone(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    run_id = new_run(first, "first")
    shutil.copytree(first, tmp_path / "second")
    new_run(tmp_path / "second", "second")
    assert runs.read_text(uri_in(tmp_path / "second"), run_id, TEXT) == "first"
    assert MlflowClient(uri_in(first)).get_run(run_id).info.artifact_uri.startswith(first.as_uri())
