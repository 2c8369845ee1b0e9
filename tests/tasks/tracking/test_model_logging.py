"""Registered versions and their model cards."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tasks.tracking import runs
from tasks.tracking.client import mlflow_client
from tasks.tracking.model_logging import DESCRIPTION_LENGTH, log_model
from tasks.tracking.registry import find_version
from tests.factories.logged_models import save_untrained_model
from tests.factories.tracking_store import parent_run

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("root")]


def start_runs(settings: list[dict[str, str]]) -> list[str]:
    """The ids of new variants' runs with these settings."""
    parent = parent_run("flow")
    started = [runs.VariantRun("char", f"key-{i}", s, {}, []) for i, s in enumerate(settings)]
    return [runs.start_variant_run(parent, run) for run in started]


def test_description_is_the_start_of_a_long_card(tmp_path: Path) -> None:
    settings = {f"setting-{number}": "α" * 100 for number in range(DESCRIPTION_LENGTH // 100)}
    (run_id,) = start_runs([settings])
    log_model(run_id, save_untrained_model(tmp_path), "bidaf-made", step=0)
    card = runs.read_text(run_id, "model_card.md")
    assert len(card) > DESCRIPTION_LENGTH
    description = mlflow_client().get_model_version("bidaf-made", "1").description
    assert description == card[:DESCRIPTION_LENGTH]


def test_parameter_of_the_training_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_id,) = start_runs([{"expected_no_answer": "0.5"}])
    log_model(run_id, save_untrained_model(tmp_path), "bidaf-made", step=0)
    assert mlflow_client().get_run(run_id).data.params["expected_no_answer"] == "0.5"
    assert "Failed to log" not in capsys.readouterr().err


def test_logged_files_take_no_space_of_their_own(tmp_path: Path) -> None:
    folder = save_untrained_model(tmp_path)
    (run_id,) = start_runs([{}])
    log_model(run_id, folder, "bidaf-made", step=0)
    location = mlflow_client().get_logged_model(find_version("bidaf-made/1").model_id)
    logged = Path(unquote(urlsplit(location.artifact_location).path)) / "artifacts" / folder.name
    content = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert all((logged / name).samefile(folder / name) for name in content)
    shutil.rmtree(folder)
    assert {file.name: file.read_bytes() for file in logged.iterdir()} == content


def test_trainings_that_end_together_log_their_models(tmp_path: Path) -> None:
    """MLflow loads each model that it logs, from a folder that it then deletes."""
    folder = save_untrained_model(tmp_path)
    run_ids = start_runs([{}] * 6)
    with ThreadPoolExecutor(3) as pool:
        logged = pool.map(lambda run_id: log_model(run_id, folder, "bidaf-made", 0), run_ids)
    assert sorted(logged) == [f"models:/bidaf-made/{number}" for number in range(1, 7)]
