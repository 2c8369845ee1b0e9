"""Registered versions and their model cards."""

from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from tasks.tracking import runs
from tasks.tracking.model_logging import DESCRIPTION_LENGTH, log_model
from tests.factories.logged_models import save_untrained_model


@pytest.mark.heavy
def test_description_is_the_start_of_a_long_card(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    parent = runs.parent_run(uri, "bidaflow/made", "flow", None, "made", {})
    settings = {f"setting-{number}": "α" * 100 for number in range(DESCRIPTION_LENGTH // 100)}
    run_id = runs.start_variant_run(uri, parent, runs.VariantRun("char", "key", settings, {}, []))
    log_model(uri, run_id, save_untrained_model(tmp_path), "bidaf-made", step=0)
    card = runs.read_text(uri, run_id, "model_card.md")
    assert len(card) > DESCRIPTION_LENGTH
    description = MlflowClient(uri).get_model_version("bidaf-made", "1").description
    assert description == card[:DESCRIPTION_LENGTH]
