"""The settings of a checkout; environment variables BIDAFLOW_<NAME> override them."""

import hashlib
import os
import re
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ByteSize,
    Field,
    FilePath,
    Json,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from infra.errors import UserError
from infra.masking import mask_secrets

CHECKOUT = Path(__file__).resolve().parents[1]
LOOPBACK = "127.0.0.1"
PREFIX = "BIDAFLOW_"


class NodeGroup(BaseModel, frozen=True, extra="forbid"):
    """Nodes of one kind that the autoscaler of a Ray cluster can start."""

    cpus: int = Field(ge=1)
    gpus: int = Field(0, ge=0)
    nodes: int = Field(ge=0)


class Settings(BaseSettings):
    """Locations of data, results and services, and limits on what runs and what is kept."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True)

    location: str = Field(
        str(CHECKOUT / ".bidaflow"),
        validation_alias="BIDAFLOW_ROOT",
        description="Storage root, for everything that the pipeline writes: a folder, or an "
        "address such as s3://bucket/folder that several machines share.",
    )
    cache: Path = Field(
        Path("~/.cache/bidaflow"),
        description="Folder for this machine's copies of what is at the address in BIDAFLOW_ROOT.",
    )
    cache_size: ByteSize | None = Field(
        None,
        gt=0,
        description="Size of that folder's stages, such as 20GB. Beyond it, the stages that were "
        "not used for longest are removed, except those in use. Empty: no limit.",
    )
    mirror: str | None = Field(
        None,
        description="Mirror (folder or URL) used instead of the official download URLs. "
        "Empty: download from the official URLs.",
    )
    mlflow_tracking_uri: str | None = Field(
        None,
        description="URL of the MLflow server. Empty: a SQLite database under the root, which must "
        "be a folder then.",
    )

    prefect_port: int = Field(4200, ge=1, le=65535, description="Port of the Prefect server.")
    mlflow_port: int = Field(5000, ge=1, le=65535, description="Port of the MLflow server.")

    mlflow_pages: str | None = Field(
        None,
        description="URL of MLflow's pages, for links. Empty: that of the server that records the "
        "runs.",
    )

    node_groups: Json[list[NodeGroup]] | None = Field(
        None,
        description="Nodes that the autoscaler of the Ray cluster can start, as JSON, such as "
        '`[{"cpus": 8, "gpus": 1, "nodes": 2}]`. Ray does not report them. Empty: none.',
    )

    work_pool: str = Field(
        "local", min_length=1, description="Prefect work pool of the deployments."
    )
    job_template: FilePath | None = Field(
        None,
        description="Base job template (JSON) of that pool if its runs are Kubernetes jobs. Empty: "
        "they are processes of the worker.",
    )

    presets: FilePath | None = Field(
        None,
        description="Python file whose presets the forms offer beside the published variants. It "
        "is run wherever flows run. Empty: none.",
    )

    time_limit_hours: float = Field(
        72, gt=0, le=100_000, description="Hours after which a flow that trains is stopped."
    )

    keep_runs: int = Field(
        20,
        ge=1,
        description="Newest flow runs of a dataset whose MLflow runs, models and stages its "
        "`retrain` keeps. Other commands remove no runs.",
    )

    checkpoint_minutes: float = Field(
        10,
        ge=0,
        description="Minutes between the checkpoints of a training, in addition to one after each "
        "epoch, or after each evaluation of a language model. 0: no time-based checkpoints.",
    )

    keep_checkpoints: int = Field(
        2,
        ge=1,
        description="Checkpoints kept during a training: the latest ones or, with a validation "
        "split, those with the best validation F1, in addition to the latest.",
    )

    layers_gb: float = Field(
        60,
        gt=0,
        description="Gigabytes on disk that the contextual layers (ELMo) of all datasets and "
        "language models may take together.",
    )

    @field_validator("location")
    @classmethod
    def _without_password(cls, location: str) -> str:
        if "://" in location and "@" in urlsplit(location).netloc:
            raise ValueError(
                "an address must not contain credentials; set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY instead"
            )
        return location

    @field_validator("mlflow_tracking_uri", "mlflow_pages")
    @classmethod
    def _with_valid_port(cls, url: str | None) -> str | None:
        _ = urlsplit(url or "").port  # raises ValueError if it is not a number up to 65535
        return url

    @model_validator(mode="after")
    def _with_shared_runs(self) -> Self:
        if self.address is not None and self.mlflow_tracking_uri is None:
            raise ValueError(
                "BIDAFLOW_ROOT is an address, which other machines may use as well. Set "
                "BIDAFLOW_MLFLOW_TRACKING_URI to the MLflow server that records the runs of all."
            )
        return self

    @property
    def address(self) -> str | None:
        """The storage root's address in an object store; None if the root is a folder."""
        is_address = re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", self.location)
        return self.location.rstrip("/") if is_address else None

    @property
    def root(self) -> Path:
        """The storage root if it is a folder, else the folder of this machine's copies of it."""
        if self.address is None:
            return Path(self.location).expanduser()
        place = f"{self.address} {os.environ.get('AWS_ENDPOINT_URL_S3', '')}"
        return self.cache.expanduser() / hashlib.sha256(place.encode()).hexdigest()[:16]

    @property
    def mirror_folder(self) -> Path | None:
        """The mirror if it is a folder; None if it is a URL or not set."""
        if self.mirror is None or self.mirror.startswith(("http://", "https://")):
            return None
        return Path(self.mirror).expanduser()

    @property
    def prefect_url(self) -> str:
        """URL of the Prefect server and UI that `bidaflow up` starts."""
        return f"http://{LOOPBACK}:{self.prefect_port}"

    @property
    def mlflow_url(self) -> str:
        """URL of the MLflow server and UI that `bidaflow up` starts."""
        return f"http://{LOOPBACK}:{self.mlflow_port}"

    @property
    def tracking_uri(self) -> str:
        """MLflow's tracking URI, where runs are recorded."""
        return self.mlflow_tracking_uri or self.mlflow_database

    @property
    def mlflow_database(self) -> str:
        """URI of the database that the MLflow server of `bidaflow up` serves."""
        named = self.mlflow_tracking_uri
        if named is not None and urlsplit(named).scheme not in ("http", "https"):
            return named
        return f"sqlite:///{self.root.resolve()}/mlflow.db"


def settings() -> Settings:
    """The settings, read from the current environment.

    Raises:
        UserError: the value of a variable is invalid.
    """
    try:
        return Settings()
    except ValidationError as error:
        raise UserError("\n".join(_error_line(detail) for detail in error.errors())) from error


def _error_line(detail: ErrorDetails) -> str:
    reason = detail["msg"].removeprefix("Value error, ")
    if not detail["loc"]:
        return reason
    name = str(detail["loc"][0])  # a field, or the variable that it is read from
    reason = reason[:1].lower() + reason[1:]
    value = mask_secrets(repr(detail["input"]))
    return f"{variable_of(name)} is invalid: {reason}, got {value}. Fix or unset it."


def variable_of(name: str) -> str:
    """The environment variable that sets a field."""
    field = Settings.model_fields.get(name)
    alias = str(field.validation_alias) if field and field.validation_alias else name
    return alias if alias.startswith(PREFIX) else f"{PREFIX}{alias.upper()}"
