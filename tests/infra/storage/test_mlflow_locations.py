"""MLflow's store below a storage root that is moved or copied."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.tracking import MlflowClient

from infra.errors import UserError
from infra.storage.mlflow_locations import follow_database
from tasks.tracking import model_logging, registry, runs
from tests.factories.logged_models import save_untrained_model
from tests.factories.tracking_store import parent_run, recording_at
from tests.factories.trees import tree_digests

TEXT = "report.txt"

pytestmark = pytest.mark.usefixtures("mlflow_tables")


def uri_in(root: Path) -> str:
    return f"sqlite:///{root}/mlflow.db"


def new_run(root: Path, flow_run: str) -> str:
    with recording_at(uri_in(root)):
        run_id = parent_run(flow_run, "gelöst")
        runs.log_text(run_id, TEXT, flow_run)
    return run_id


@pytest.fixture
def original(tmp_path: Path) -> tuple[Path, str]:
    """A root with a run, and the run's id."""
    root = tmp_path / "before"
    root.mkdir()
    return root, new_run(root, "first")


def locations(root: Path) -> list[str]:
    """All values of the store that mention the folder of a root's files."""
    with closing(sqlite3.connect(root / "mlflow.db")) as connection:
        return [line for line in connection.iterdump() if f"{root}/mlartifacts" in line]


def test_moved_root_works_at_its_new_place(original: tuple[Path, str], tmp_path: Path) -> None:
    before, first = original
    root = tmp_path / "after move"  # a name that needs escapes in URIs
    model = save_untrained_model(tmp_path)
    with recording_at(uri_in(before)):
        model_logging.log_model(first, model, "bidaf-moved", step=0)
    before.rename(root)
    second = new_run(root, "second")
    with recording_at(uri_in(root)):
        for run_id, text in ((first, "first"), (second, "second")):
            assert runs.read_text(run_id, TEXT) == text
        model_id = registry.find_version("models:/bidaf-moved/1").model_id
        registry.download(model_id, tmp_path / "downloaded")
    assert tree_digests(tmp_path / "downloaded") == tree_digests(model)
    assert not before.exists()


def test_copied_root_leaves_the_original_alone(original: tuple[Path, str], tmp_path: Path) -> None:
    before, first = original
    model = save_untrained_model(tmp_path)
    with recording_at(uri_in(before)):
        model_logging.log_model(first, model, "bidaf-first", step=0)
    copy = tmp_path / "copy"
    shutil.copytree(before, copy)
    digests = tree_digests(before)
    with recording_at(uri_in(copy)):
        assert runs.read_text(first, TEXT) == "first"
        second = new_run(copy, "second")
        model_logging.log_model(second, model, "bidaf-second", step=0)
    logged = copy / "mlartifacts" / "bidaflow" / "gelöst"
    assert (logged / first).is_dir() and (logged / second).is_dir()
    assert len(list((logged / "models").iterdir())) == 2
    assert tree_digests(before) == digests
    assert not [line for line in locations(copy) if f"{before}/" in line]


def test_locations_that_a_user_chose_stay(original: tuple[Path, str], tmp_path: Path) -> None:
    before, _ = original
    chosen = (tmp_path / "large disk" / "mlartifacts" / "tickets").as_uri()
    MlflowClient(uri_in(before)).create_experiment("tickets", chosen)
    before.rename(tmp_path / "after")
    follow_database(uri_in(tmp_path / "after"))
    experiment = MlflowClient(uri_in(tmp_path / "after")).get_experiment_by_name("tickets")
    assert experiment.artifact_location == chosen


def test_experiments_of_the_server_follow(tmp_path: Path) -> None:
    """They are named by their numbers, and have paths instead of URIs."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    SqlAlchemyStore(uri_in(before), f"{before}/mlartifacts")
    follow_database(uri_in(before))  # as the server does at its start
    store = SqlAlchemyStore(uri_in(before), f"{before}/mlartifacts")
    created = store.create_experiment("made in MLflow's pages")
    shutil.copytree(before, after)
    follow_database(uri_in(after))
    experiment = MlflowClient(uri_in(after)).get_experiment(created)
    assert experiment.artifact_location == f"{after}/mlartifacts/{created}"


def test_copy_that_can_not_be_corrected_is_refused(
    original: tuple[Path, str], tmp_path: Path
) -> None:
    shutil.copytree(original[0], tmp_path / "copy")
    with closing(sqlite3.connect(tmp_path / "copy" / "mlflow.db")) as connection:
        refuse = "BEGIN SELECT RAISE(ABORT, 'readonly'); END"
        connection.execute(f"CREATE TRIGGER refuse BEFORE UPDATE ON runs {refuse}")
    with pytest.raises(UserError, match=r"\(readonly\)\. Make the file and its folder writable"):
        new_run(tmp_path / "copy", "second")


def test_model_without_its_files_is_named(
    original: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, run_id = original
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", uri_in(root))
    model = save_untrained_model(tmp_path)
    model_logging.log_model(run_id, model, "bidaf-first", step=0)
    model_id = registry.find_version("models:/bidaf-first/1").model_id
    (root / "mlartifacts").rename(tmp_path / "elsewhere")
    message = f"The files of model {model_id} are not in {root}/mlartifacts/.* Restore the folder"
    with pytest.raises(UserError, match=message):
        registry.download(model_id, tmp_path / "downloaded")
