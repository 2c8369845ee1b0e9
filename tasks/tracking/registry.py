"""MLflow's registered models: versions, and the aliases champion, previous and challenger."""

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infra.errors import UserError
from tasks.tracking.client import client_of

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

# MLflow is imported locally, because it takes a second to load.

CHAMPION, PREVIOUS, CHALLENGER = "champion", "previous", "challenger"
NOT_THERE = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
"""MLflow's error codes for an unknown model or version, and for an unknown alias."""


@dataclass(frozen=True)
class Registered:
    """A version of a registered model. A `model_id` is never reused."""

    name: str
    version: str
    run_id: str
    model_id: str
    tags: Mapping[str, str]

    @property
    def uri(self) -> str:
        """The model URI for `mlflow.pyfunc.load_model`."""
        return f"models:/{self.name}/{self.version}"


def registered(uri: str, model_uri: str) -> Registered:
    """The version with the URI `models:/<name>/<version>`.

    Raises:
        UserError: the version does not exist any more.
    """
    from mlflow.exceptions import MlflowException

    name, version = model_uri.removeprefix("models:/").rsplit("/", 1)
    try:
        return _registered(client_of(uri).get_model_version(name, version))
    except MlflowException as error:
        if error.error_code not in NOT_THERE:
            raise
        raise UserError(
            f"MLflow has no version {version} of {name} any more: remove the stages of `train`, or "
            "choose another seed, and it is trained anew."
        ) from error


def with_alias(uri: str, name: str, alias: str) -> Registered | None:
    """The version with an alias; None if there is none.

    Raises:
        MlflowException: the lookup failed for another reason.
    """
    from mlflow.exceptions import MlflowException

    try:
        return _registered(client_of(uri).get_model_version_by_alias(name, alias))
    except MlflowException as error:
        if error.error_code not in NOT_THERE:
            raise
        return None


def crown(uri: str, model: Registered) -> None:
    """Promote a version to champion; the champion before it becomes the previous one."""
    before = with_alias(uri, model.name, CHAMPION)
    client = client_of(uri)
    if before is not None and before.version != model.version:
        client.set_registered_model_alias(model.name, PREVIOUS, before.version)
    client.set_registered_model_alias(model.name, CHAMPION, model.version)


def challenge(uri: str, model: Registered) -> None:
    """Make a version the challenger, replacing an earlier one."""
    client_of(uri).set_registered_model_alias(model.name, CHALLENGER, model.version)


def rollback(uri: str, name: str) -> tuple[Registered, Registered | None]:
    """Make the previous champion the champion again. Returns it, and the version it replaces.

    Raises:
        UserError: there is no previous champion.
    """
    again = with_alias(uri, name, PREVIOUS)
    if again is None:
        raise UserError(f"{name} has no previous champion to go back to.")
    replaced = with_alias(uri, name, CHAMPION)
    crown(uri, again)
    return again, replaced


def tag(uri: str, model: Registered, tags: Mapping[str, str]) -> None:
    """Tag a version, and the run that trained it."""
    client = client_of(uri)
    for key, value in tags.items():
        client.set_model_version_tag(model.name, model.version, key, value)
        client.set_tag(model.run_id, key, value)


def download(uri: str, model_id: str, folder: Path) -> None:
    """Copy the model folder of a logged model, which `Predictor` loads, to the new `folder`."""
    import mlflow

    client_of(uri)
    mlflow.set_tracking_uri(uri)  # the download takes a tracking URI only for runs
    with tempfile.TemporaryDirectory() as temporary:
        found = mlflow.artifacts.download_artifacts(
            artifact_uri=f"models:/{model_id}", dst_path=temporary
        )
        (logged,) = (Path(found) / "artifacts").iterdir()  # named like the logged folder
        shutil.copytree(logged, folder)


def versions(uri: str, name: str) -> Iterable[Registered]:
    """All versions of a registered model."""
    return [_registered(one) for one in client_of(uri).search_model_versions(f"name = '{name}'")]


def _registered(version: "ModelVersion") -> Registered:
    model_id = str(version.source).removeprefix("models:/")  # set by `model_logging`
    return Registered(
        version.name, str(version.version), version.run_id, model_id, dict(version.tags)
    )
