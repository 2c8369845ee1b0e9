"""The MLflow client, and the URLs of the server and of runs."""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from infra.errors import UserError
from infra.settings import settings

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

# MLflow is imported locally, because it takes a second to load.


def run_url(uri: str, run_id: str) -> str:
    """URL of the run's page; for a SQLite store, on the server that `bidaflow up` starts."""
    experiment_id = client_of(uri).get_run(run_id).info.experiment_id
    server = server_url(uri) or settings().mlflow_url
    return f"{server}/#/experiments/{experiment_id}/runs/{run_id}"


def reading_client(uri: str) -> "MlflowClient | None":
    """A client for reading runs and models; None if the SQLite file is missing.

    Raises:
        UserError: the server does not respond.
    """
    if uri.startswith("sqlite:") and not Path(uri.removeprefix("sqlite:///")).is_file():
        return None  # a client would create the file, which takes seconds
    require_server(uri)
    return client_of(uri)


def server_url(uri: str) -> str | None:
    """The server's URL without user name and password; None for a local store."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return None
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def require_server(uri: str) -> None:
    """Check that the server responds; does nothing for a local store.

    Sends one request without retries, because MLflow's own retries take minutes.

    Raises:
        UserError: the server does not respond.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    server = server_url(uri)
    if server is None:
        return
    try:
        http_request(get_default_host_creds(uri), "/health", "GET", max_retries=0, timeout=10)
    except MlflowException as error:
        raise UserError(
            f"No MLflow server responds at {server}. Start it, or unset "
            "BIDAFLOW_MLFLOW_TRACKING_URI to record runs in a local file."
        ) from error


def client_of(uri: str) -> "MlflowClient":
    """A client of the store, with MLflow's informational output silenced."""
    from mlflow.tracking import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    return MlflowClient(uri)
