"""Logs models to MLflow together with their inference code, and registers them."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from infra.settings import CHECKOUT
from tasks.tracking.client import client_of
from tasks.tracking.model_card import model_card

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

# MLflow is imported locally, because it takes a second to load.

INFERENCE_PACKAGES = ("mlflow", "numpy", "pyarrow", "pydantic", "safetensors", "torch")


def log_model(uri: str, run_id: str, model_folder: Path, registered_name: str, step: int) -> str:
    """Log a model folder with its inference code, register it as a new version, and return its URI.

    `step` is the optimisation step of the weights; the run's metrics at that step become the
    model's. If the run already has a version, that version's URI is returned.
    """
    import mlflow.pyfunc
    from mlflow.models import Model

    client = client_of(uri)
    versions = client.search_model_versions(f"name = '{registered_name}' and run_id = '{run_id}'")
    if versions:
        return f"models:/{registered_name}/{versions[0].version}"
    run = client.get_run(run_id)
    # Created here, because `Model.log` would use MLflow's current experiment.
    model = client.create_logged_model(
        run.info.experiment_id, "answerer", source_run_id=run_id, params=run.data.params
    )
    mlflow.set_tracking_uri(uri)  # `Model.log` takes no URI
    Model.log(
        artifact_path=None,
        flavor=mlflow.pyfunc,
        model_id=model.model_id,
        run_id=run_id,
        step=step,
        python_model=str(CHECKOUT / "tasks" / "inference" / "pyfunc_model.py"),
        artifacts={"model": str(model_folder)},
        model_config={"no_answer": "argmax"},
        code_paths=[str(CHECKOUT / package) for package in ("infra", "models", "tasks")],
        # Without local suffixes such as "+cpu", which PyPI lacks.
        pip_requirements=[f"{p}=={version(p).partition('+')[0]}" for p in INFERENCE_PACKAGES],
        input_example=[{"question": "Who answers?", "context": "The model answers."}],
    )
    return _register(client, registered_name, run, model.model_id)


def _register(client: "MlflowClient", name: str, run: "Run", model_id: str) -> str:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    card = model_card(name, run.data.params, run.data.tags, run.data.metrics)
    created = client.create_model_version(
        name,
        f"models:/{model_id}",
        run.info.run_id,
        tags={key: tag for key, tag in run.data.tags.items() if not key.startswith("mlflow.")},
        model_id=model_id,
        description=card,
    )
    client.log_text(run.info.run_id, card, "model_card.md")
    # MLflow's page of the logged model reads its registered version from this tag.
    client.set_logged_model_tags(
        model_id,
        {"mlflow.modelVersions": json.dumps([{"name": name, "version": created.version}])},
    )
    return f"models:/{name}/{created.version}"
