"""Warm start: finds the model whose weights a training starts from."""

from pathlib import Path

from infra.errors import UserError
from infra.settings import settings
from tasks.stages import fetching_model
from tasks.tracking import registry
from tasks.tracking.fetch_model import MODEL_FILES, MODEL_TABLES


def model_to_start_from(source: str | None) -> Path | None:
    """The stage folder that holds a copy of the model; None if `source` is None.

    Raises:
        UserError: there is no such model.
    """
    if source is None:
        return None
    if source.startswith("models:/"):
        return fetching_model(_registered(source).model_id).folder
    files = [Path(source).expanduser() / name for name in (*MODEL_FILES, *MODEL_TABLES)]
    for file in files:
        if not file.is_file():
            raise UserError(
                f"{source} is not a model directory: it has no {file.name}. Use the model/ "
                "directory of a training, or models:/<name>@champion."
            )
    return fetching_model(files).folder


def _registered(source: str) -> registry.RegisteredVersion:
    uri = settings().tracking_uri
    name, _, alias = source.removeprefix("models:/").partition("@")
    if not alias:
        return registry.get_version(uri, source)
    model = registry.with_alias(uri, name, alias)
    if model is None:
        raise UserError(
            f"No version of {name} has the alias {alias!r} in MLflow. Choose a version instead: "
            f"models:/{name}/<version>."
        )
    return model
