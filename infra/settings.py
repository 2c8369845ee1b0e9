"""The settings of a checkout; environment variables BIDAFLOW_<NAME> override them."""

from pathlib import Path

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from infra.errors import UserError

CHECKOUT = Path(__file__).resolve().parents[1]
LOOPBACK = "127.0.0.1"


class Settings(BaseSettings):
    """Locations of data, results and services, and limits on what runs and what is kept."""

    model_config = SettingsConfigDict(env_prefix="BIDAFLOW_", env_ignore_empty=True, frozen=True)

    root: Path = Field(
        CHECKOUT / ".bidaflow", description="Folder for everything that the pipeline writes."
    )
    mirror: str | None = Field(
        None,
        description="Mirror (folder or URL) used instead of the official download URLs. "
        "Empty: download from the official URLs.",
    )
    mlflow_tracking_uri: str | None = Field(
        None, description="URL of the MLflow server. Empty: a SQLite database under the root."
    )

    prefect_port: int = Field(4200, ge=1, le=65535, description="Port of the Prefect server.")
    mlflow_port: int = Field(5000, ge=1, le=65535, description="Port of the MLflow server.")
    reports_port: int = Field(5100, ge=1, le=65535, description="Port of the reports' server.")

    time_limit_hours: float = Field(
        72, gt=0, description="Hours after which a flow that trains is stopped."
    )

    keep_runs: int = Field(
        20,
        ge=1,
        description="Newest flow runs of each dataset whose MLflow runs, models and stages garbage "
        "collection keeps.",
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
        description="Gigabytes on disk that the contextual layers (ELMo) of a dataset may take.",
    )

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
    def reports_url(self) -> str:
        """URL of the report pages that `bidaflow up` serves."""
        return f"http://{LOOPBACK}:{self.reports_port}"

    @property
    def tracking_uri(self) -> str:
        """MLflow's tracking URI, where runs are recorded."""
        return self.mlflow_tracking_uri or f"sqlite:///{self.root.resolve()}/mlflow.db"


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
    (field,) = detail["loc"]
    reason = detail["msg"][:1].lower() + detail["msg"][1:]
    variable = f"BIDAFLOW_{str(field).upper()}"
    return f"{variable} is invalid: {reason}, got {detail['input']!r}. Fix or unset it."
