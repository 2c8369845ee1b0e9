"""A server's app in this process, with an untrained model."""

import shutil
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from tasks.serving.doors import create_app
from tasks.serving.replica import Replica, publish
from tasks.tracking import model_logging, registry, runs
from tasks.tracking.client import mlflow_client
from tests.factories.logged_models import MODEL_INPUT, save_untrained_model
from tests.factories.tracking_store import parent_run

NAME = "bidaf-made"
QUESTION = MODEL_INPUT[0]
OTHER_TEXT = {
    "question": "Where is the café 🏮?",
    "context": "🏮 The café is by the quay, and the long street of the town begins there. 🏮",
}


def serve_untrained(folder: Path, version: str = "1") -> Path:
    """Publish an untrained model in the new folder; returns it."""
    folder.mkdir()
    publish(folder, save_untrained_model(folder), NAME, version)
    return folder


def client(folder: Path, token: str | None = None, feedback: Path | None = None) -> TestClient:
    """A client on this machine of a server with the published model."""
    return TestClient(create_app(Replica(folder), token, feedback), "http://localhost")


def tensors(**columns: list[Any]) -> list[dict[str, Any]]:
    """BYTES tensors of the Open Inference Protocol."""
    return [
        {"name": name, "shape": [len(data)], "datatype": "BYTES", "data": data}
        for name, data in columns.items()
    ]


def register_untrained(folder: Path) -> None:
    """Register an untrained model as version 1, which is the champion, and as version 2; version 3
    has no weights."""
    folder.mkdir()
    saved = save_untrained_model(folder)
    client, parent = mlflow_client(), parent_run("flow")
    tags = {"variant": "made", "dataset.digest": "ab" * 32}
    run_id = runs.start_variant_run(parent, runs.VariantRun("made", "key", {}, tags, []))
    runs.log_scores(run_id, {"dev/f1": 50.0})
    first = registry.find_version(model_logging.log_model(run_id, saved, NAME, step=0))
    whole = client.get_logged_model(first.model_id)
    broken = client.create_logged_model(whole.experiment_id, source_run_id=run_id)
    here, there = (
        Path(m.artifact_location.removeprefix("file://")) / "artifacts" for m in (whole, broken)
    )
    shutil.copytree(here, there)
    (there / saved.name / "weights.safetensors").unlink()
    for model in (whole, broken):
        client.create_model_version(NAME, f"models:/{model.model_id}", run_id)
    registry.set_champion(first)
