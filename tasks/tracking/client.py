"""The MLflow client, and the URLs of the server and of runs."""

import logging
import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from infra.errors import RetryableError, UserError
from infra.processes import read_record
from infra.settings import settings
from infra.storage.mlflow_locations import follow_database

if TYPE_CHECKING:
    from mlflow.entities.model_registry import RegisteredModel
    from mlflow.tracking import MlflowClient

# MLflow is imported locally, because it takes a second to load.

LOGIN = "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD to a login"


def run_url(uri: str, run_id: str) -> str:
    """URL of the run's page, for a SQLite store on the server that `bidaflow up` starts."""
    experiment_id = client_of(uri).get_run(run_id).info.experiment_id
    pages = settings().mlflow_pages or server_url(uri) or settings().mlflow_url
    return f"{pages.rstrip('/')}/#/experiments/{experiment_id}/runs/{run_id}"


def shows_pages(uri: str) -> bool:
    """Whether a server shows the pages of the store's runs: `bidaflow up`, if it is a file."""
    services = read_record()
    is_up = services is not None and services.supervisor.alive
    return bool(settings().mlflow_pages or server_url(uri) or is_up)


def reading_client(uri: str) -> "MlflowClient | None":
    """A client for reading runs and models; None if the SQLite file is missing.

    Raises:
        UserError: the server does not respond (retryable), or refuses access.
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


@cache
def require_server(uri: str) -> None:
    """As `require_response`, but a server that has responded once to this process is not checked
    again: MLflow's own retries wait for it while it restarts."""
    require_response(uri)


def require_response(uri: str) -> None:
    """Check that the server responds and accepts the login; does nothing for a local store.

    Sends one request without retries, because MLflow's own retries take minutes.

    Raises:
        UserError: the server does not respond (retryable), or refuses access.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    server = server_url(uri)
    if server is None:
        return
    try:
        response = http_request(
            get_default_host_creds(uri),
            "/api/2.0/mlflow/experiments/search",
            "GET",
            max_retries=0,
            timeout=10,
            params={"max_results": 1},
        )
    except MlflowException as error:
        raise RetryableError(
            f"No MLflow server responds at {server}. Start it, or unset "
            "BIDAFLOW_MLFLOW_TRACKING_URI to record runs in a local file."
        ) from error
    if response.status_code in (401, 403):
        raise UserError(f"The MLflow server at {server} refuses access. {LOGIN}.")


def denied(error: Exception) -> UserError | None:
    """What to do about an error of MLflow's client that says that the user may not do something.

    None for other errors.
    """
    mlflow = sys.modules.get("mlflow.exceptions")  # if it is not loaded, the error is another one
    if mlflow is None or not isinstance(error, mlflow.MlflowException):
        return None
    if error.get_http_status_code() not in (401, 403):
        return None
    user = os.environ.get("MLFLOW_TRACKING_USERNAME", "without a name")
    return UserError(
        f"The MLflow server at {server_url(settings().tracking_uri)} does not let the user {user} "
        f"write. {LOGIN} of one who may, or ask for the permission EDIT."
    )


def registered_models(client: "MlflowClient", query: str | None = None) -> "list[RegisteredModel]":
    """All registered models that fulfil MLflow's `query`, from all pages."""
    from mlflow.utils import get_results_from_paginated_fn

    models: list[RegisteredModel] = get_results_from_paginated_fn(
        lambda size, token: client.search_registered_models(query, size, page_token=token),
        max_results_per_page=1000,
    )
    return models


def client_of(uri: str) -> "MlflowClient":
    """A client of the store, with MLflow's informational output silenced.

    A SQLite store that was moved or copied has its locations corrected first.
    """
    from mlflow.tracking import MlflowClient

    follow_database(uri)
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    return MlflowClient(uri)
