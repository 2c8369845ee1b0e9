"""Trained models: MLflow's registered versions, the aliases champion, previous and challenger, and
the files of a model."""

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from infra.errors import UserError
from infra.files import user_path
from infra.settings import settings
from tasks.tracking import runs
from tasks.tracking.client import (
    all_pages,
    ignoring,
    mlflow_client,
    reading_client,
    require_server,
)

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

# MLflow is imported locally, because it takes a second to load.

CHAMPION, PREVIOUS, CHALLENGER = "champion", "previous", "challenger"

MODEL_FILES = ("config.json", "weights.safetensors", "vectors.safetensors")
TRAINED_CONTEXTS = "trained-contexts.parquet"
MODEL_TABLES = ("words.parquet", "characters.parquet", TRAINED_CONTEXTS)
# A language model, only with contextual vectors.
OPTIONAL_MODEL_FILES = ("bilm.safetensors", "bilm.json")


@dataclass(frozen=True)
class RegisteredVersion:
    """A version of a registered model. A `model_id` is never reused."""

    name: str
    version: str
    run_id: str
    model_id: str
    tags: Mapping[str, str]
    # Aliases move from version to version, so equality ignores them.
    aliases: tuple[str, ...] = field(compare=False)


def get_version(model_uri: str, run_id: str) -> RegisteredVersion:
    """The version with the URI `models:/<name>/<version>`, which the run `run_id` registered.

    Raises:
        UserError: the version does not exist any more, also if another store has one with its
            number.
    """
    name, version = model_uri.removeprefix("models:/").rsplit("/", 1)
    model = find(name, version=version)
    if model is None or model.run_id != run_id:
        raise UserError(
            f"Version {version} of {name} no longer exists in MLflow. To train it again, remove "
            "the `train` stages, or choose another seed."
        )
    return model


def find_version(model_uri: str) -> RegisteredVersion:
    """The version that a user names as `models:/<name>/<version>` or `models:/<name>@<alias>`, or
    without `models:/`. The name may also be that of the dataset: `tickets@champion`.

    Raises:
        UserError: the URI is invalid, there is no such version, or the server does not respond.
    """
    match = re.fullmatch(r"(?:models:/)?([^/@]+)(?:/(\d+)|@(.+))", model_uri)
    if match is None:
        raise UserError(
            f"{model_uri} is not a model URI, and no model directory has this path. Expected "
            "models:/<name>/<version> or models:/<name>@<alias>."
        )
    require_server()  # MLflow's own retries take minutes
    name, version, alias = match.groups()
    model = find(name, alias, version) or find(f"bidaf-{name}", alias, version)
    if model is None:
        missing = (
            f"{name} has no version {version}"
            if alias is None
            else f"No version of {name} has the alias {alias!r}"
        )
        raise UserError(f"{missing} in MLflow. Choose another version: models:/{name}/<version>.")
    return model


def chosen_version(model: str | None, dataset: str) -> RegisteredVersion:
    """The version that a user names (see `find_version`), or else the champion of a dataset.

    Raises:
        UserError: there is no such version, or the server does not respond.
    """
    if model is not None:
        return find_version(model)
    require_server()
    champion = find(f"bidaf-{dataset}", CHAMPION)
    if champion is None:
        others = ", ".join(model.name.removeprefix("bidaf-") for model in champions())
        known = f"Those that have one: {others} (--dataset). " if others else ""
        raise UserError(
            f"The dataset {dataset} has no champion yet. {known}Train one with `bidaflow retrain`, "
            "or choose another model, for example --model bidaf-tickets@champion."
        )
    return champion


def title(model: RegisteredVersion) -> str:
    """The version and its variant, such as "Version 3 (char)"."""
    return f"Version {model.version} ({model.tags.get('variant', 'unknown variant')})"


def find(name: str, alias: str | None = None, version: str = "") -> RegisteredVersion | None:
    """The version with an alias, or else with a number; None if there is none.

    Raises:
        MlflowException: the lookup failed for another reason.
    """
    client = mlflow_client()
    # MLflow's codes for an unknown model or version, and for an unknown alias.
    with ignoring("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
        return _version(
            client.get_model_version_by_alias(name, alias)
            if alias
            else client.get_model_version(name, version)
        )
    return None


def set_champion(model: RegisteredVersion) -> RegisteredVersion | None:
    """Promote a version to champion. The champion before it becomes the previous one and is
    returned, if there was one."""
    before, client = find(model.name, CHAMPION), mlflow_client()
    if before is not None and before.version != model.version:
        client.set_registered_model_alias(model.name, PREVIOUS, before.version)
    client.set_registered_model_alias(model.name, CHAMPION, model.version)
    return before


def newest_version(name: str) -> int:
    """The number of a model's newest version."""
    versions = mlflow_client().search_model_versions(f"name = '{name}'")
    return max(int(version.version) for version in versions)


def set_challenger(model: RegisteredVersion) -> None:
    """Make a version the challenger, replacing an earlier one."""
    mlflow_client().set_registered_model_alias(model.name, CHALLENGER, model.version)


def rollback(name: str) -> tuple[RegisteredVersion, RegisteredVersion | None]:
    """Make the previous champion the champion again. Returns it, and the version it replaces.

    A rerun after an interruption restores the same version. A second rollback is refused: it would
    bring back the version that the first one replaced.

    Raises:
        UserError: there is no previous champion.
    """
    restored = find(name, PREVIOUS)
    if restored is None:
        raise UserError(
            f"{name} has no previous champion to roll back to. To choose another version, run: "
            f"bidaflow promote models:/{name}/VERSION"
        )
    replaced, client = find(name, CHAMPION), mlflow_client()
    # The other way round, an interruption would lose which version to restore.
    client.set_registered_model_alias(name, CHAMPION, restored.version)
    client.delete_registered_model_alias(name, PREVIOUS)
    return restored, replaced if replaced and replaced.version != restored.version else None


def tag(model: RegisteredVersion, tags: Mapping[str, str]) -> None:
    """Tag a version, and the run that trained it if it has not been deleted."""
    client = mlflow_client()
    for key, value in tags.items():
        client.set_model_version_tag(model.name, model.version, key, value)
    if runs.is_kept(model.run_id):
        runs.tag(model.run_id, tags)


def download(model_id: str, folder: Path) -> None:
    """Copy the model folder of a logged model, which `Predictor` loads, to the new `folder`.

    Raises:
        UserError: the model's files are gone.
    """
    import mlflow

    _require_files(model_id)
    mlflow.set_tracking_uri(
        settings().tracking_uri
    )  # the download takes a tracking URI only for runs
    with tempfile.TemporaryDirectory() as temporary:
        downloaded = mlflow.artifacts.download_artifacts(
            artifact_uri=f"models:/{model_id}", dst_path=temporary
        )
        (logged,) = Path(downloaded, "artifacts").iterdir()  # under its own name
        shutil.move(logged, folder)


def _require_files(model_id: str) -> None:
    """Check that the files of a logged model exist, if they are on this machine.

    Raises:
        UserError: they do not, or the model was not logged by a training.
    """
    logged = None
    with ignoring("RESOURCE_DOES_NOT_EXIST"):
        logged = mlflow_client().get_logged_model(model_id)
    if logged is None:
        raise UserError(
            f"MLflow has no files of the model {model_id}: a training of bidaflow did not log it, "
            "or its files were erased. Choose another version."
        )
    location = urlsplit(logged.artifact_location)
    recorded = Path(unquote(location.path))
    if location.scheme in ("", "file") and not recorded.is_dir():
        raise UserError(
            f"The files of model {model_id} are not in {recorded}. Restore the folder, or train a "
            "new model."
        )


def find_model_files(folder: str) -> list[Path]:
    """The files and tables of a model folder, with the optional ones that it has.

    Raises:
        UserError: one of them is missing, or can't be read.
    """
    path = user_path(folder)
    files = [path / name for name in (*MODEL_FILES, *MODEL_TABLES)]
    for file in files:
        if not file.is_file():
            raise UserError(
                f"{folder} is not a model directory: it has no {file.name}. Use the model/ "
                "directory of a training, or models:/<name>@champion."
            )
    return [*files, *(path / name for name in OPTIONAL_MODEL_FILES if (path / name).is_file())]


def fetch_model(out: Path, source: str | Sequence[Path]) -> dict[str, Any]:
    """Copy a model's files to `out`/model: `source` is a logged model's id, or the files."""
    if isinstance(source, str):
        download(source, out / "model")
    else:
        (out / "model").mkdir()
        for file in source:
            shutil.copyfile(file, out / "model" / file.name)
    return {}


def champions() -> list[RegisteredVersion]:
    """The champion of each registered model that has one.

    Raises:
        UserError: the server does not respond.
    """
    client = reading_client()
    if client is None:
        return []
    return [
        _version(client.get_model_version(model.name, model.aliases[CHAMPION]))
        for model in all_pages(client.search_registered_models, filter_string="name LIKE 'bidaf-%'")
        if CHAMPION in model.aliases
    ]


def trained_variant(model_id: str) -> str:
    """The variant of a logged model, for people; its id if the run that logged it is gone."""
    client = mlflow_client()
    with ignoring("RESOURCE_DOES_NOT_EXIST"):
        run = client.get_run(client.get_logged_model(model_id).source_run_id)
        return str(run.data.tags.get("variant", model_id))
    return model_id


def _version(version: "ModelVersion") -> RegisteredVersion:
    return RegisteredVersion(
        version.name,
        str(version.version),
        version.run_id,
        str(version.source).removeprefix("models:/"),  # set by `model_logging`
        dict(version.tags),
        tuple(sorted(version.aliases)),
    )
