"""Warm start: finds the model whose weights a training starts from."""

from pathlib import Path

from infra.settings import settings
from tasks.stages import fetching_model
from tasks.tracking import registry
from tasks.tracking.fetch_model import find_model_files


def model_to_start_from(source: str | None) -> Path | None:
    """The stage folder that holds a copy of the model; None if `source` is None.

    Raises:
        UserError: there is no such model.
    """
    if source is None:
        return None
    if source.startswith("models:/"):
        version = registry.find_version(settings().tracking_uri, source)
        return fetching_model(version.model_id).folder
    return fetching_model(find_model_files(source)).folder
