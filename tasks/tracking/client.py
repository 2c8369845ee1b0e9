"""MLflow's client, and the addresses of its server and of runs."""

import logging
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from infra.errors import UserError
from infra.settings import settings

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

# MLflow is imported where it is used: it takes a second to load.


def run_url(uri: str, run_id: str) -> str:
    """Address of the run's page; for a SQLite file, the one that `make up` gives it."""
    experiment_id = client_of(uri).get_run(run_id).info.experiment_id
    server = server_address(uri) or settings().mlflow_url
    return f"{server}/#/experiments/{experiment_id}/runs/{run_id}"


def reading_client(uri: str) -> "MlflowClient":
    """A client to look runs and models up with.

    Raises:
        UserError: no server answers.
    """
    require_server(uri)
    return client_of(uri)


def server_address(uri: str) -> str | None:
    """The server's address without a user name and password; None for a file."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return None
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def require_server(uri: str) -> None:
    """One request without retries: MLflow's own would go on for minutes before they give up."""
    from mlflow.exceptions import MlflowException
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    server = server_address(uri)
    if server is None:
        return
    try:
        http_request(get_default_host_creds(uri), "/health", "GET", max_retries=0, timeout=10)
    except MlflowException as error:
        raise UserError(
            f"No MLflow server answers at {server}: start it, or unset "
            "BIDAFLOW_MLFLOW_TRACKING_URI to record runs in a file."
        ) from error


def client_of(uri: str) -> "MlflowClient":
    """A client of the store, which keeps quiet."""
    from mlflow.tracking import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    return MlflowClient(uri)
