"""The aliases of registered models in a real MLflow store."""

from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from infra.errors import UserError
from tasks.tracking import registry
from tasks.tracking.client import mlflow_client
from tests.factories.registered import NAME, alias, register_versions

pytestmark = pytest.mark.usefixtures("root")


def test_interrupted_rollback_can_be_repeated(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register_versions(champion="2", previous="1")
    set_alias = MlflowClient.set_registered_model_alias

    def interrupted(client: MlflowClient, *arguments: Any) -> None:
        set_alias(client, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(MlflowClient, "set_registered_model_alias", interrupted)
        registry.rollback(NAME)
    restored, replaced = registry.rollback(NAME)
    assert (restored.version, replaced) == ("1", None)
    assert alias(registry.CHAMPION) == "1"


def test_version_of_a_deleted_run_is_tagged() -> None:
    register_versions()
    model = registry.find_version(f"models:/{NAME}/1")
    client = mlflow_client()
    registry.tag(model, {"promotion": "refused"})
    client.delete_run(model.run_id)
    registry.tag(model, {"promotion": "promoted"})
    assert registry.find_version(f"models:/{NAME}/1").tags["promotion"] == "promoted"
    assert client.get_run(model.run_id).data.tags["promotion"] == "refused"


def test_version_of_another_run_is_not_taken() -> None:
    """As in a store that was reset, or another one, which counts from 1 again."""
    register_versions(champion="2", previous="1")
    run_id = registry.find_version(f"models:/{NAME}/1").run_id
    assert registry.get_version(f"models:/{NAME}/1", run_id).version == "1"
    with pytest.raises(UserError, match=f"Version 1 of {NAME} no longer exists"):
        registry.get_version(f"models:/{NAME}/1", "of another store")
    with pytest.raises(UserError, match="no longer exists"):
        registry.get_version(f"models:/{NAME}/3", run_id)


def test_models_of_others_are_refused_in_a_sentence(tmp_path: Path) -> None:
    """As a version that another project registered from a run."""
    register_versions()
    with pytest.raises(UserError, match=r"no files of the model runs:/1/model: a training of"):
        registry.download("runs:/1/model", tmp_path / "model")
