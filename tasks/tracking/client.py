"""The MLflow client, and the URLs of the server and of runs."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from infra.errors import RetryableError, UserError
from infra.processes import read_record
from infra.settings import settings
from infra.storage.mlflow_locations import follow_database

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

# MLflow is imported locally, because it takes a second to load.

T = TypeVar("T")

LOGIN = "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD to a login"
_RESPONDED: set[str] = set()  # servers that have responded to this process


def mlflow_client() -> "MlflowClient":
    """A client of the store that the settings name."""
    return client_of(settings().tracking_uri)


def client_of(uri: str) -> "MlflowClient":
    """A client of a store, with MLflow's informational output silenced.

    A SQLite store that was moved or copied has its locations corrected first.
    """
    from mlflow.tracking import MlflowClient

    follow_database(uri)
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    return MlflowClient(uri)


def reading_client() -> "MlflowClient | None":
    """A client for reading runs and models; None if the SQLite file is missing.

    Raises:
        UserError: the server does not respond (retryable), or refuses access.
    """
    uri = settings().tracking_uri
    if uri.startswith("sqlite:") and not Path(uri.removeprefix("sqlite:///")).is_file():
        return None  # a client would create the file, which takes seconds
    require_server()
    return client_of(uri)


def all_pages(search: Callable[..., list[T]], **arguments: Any) -> list[T]:
    """All results of a search by a client, which returns a page of them."""
    from mlflow.utils import get_results_from_paginated_fn

    results: list[T] = get_results_from_paginated_fn(
        lambda size, token: search(max_results=size, page_token=token, **arguments),
        max_results_per_page=1000,
    )
    return results


@contextmanager
def ignoring(*codes: str) -> Iterator[None]:
    """End the block, without raising them, at errors of MLflow with these codes."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code not in codes:
            raise


def run_url(run_id: str) -> str:
    """URL of the run's page, for a SQLite store on the server that `bidaflow up` starts."""
    experiment_id = mlflow_client().get_run(run_id).info.experiment_id
    pages = settings().mlflow_pages or server_url() or settings().mlflow_url
    return f"{pages.rstrip('/')}/#/experiments/{experiment_id}/runs/{run_id}"


def shows_pages() -> bool:
    """Whether a server shows the pages of the store's runs: `bidaflow up`, if it is a file."""
    services = read_record()
    is_up = services is not None and services.supervisor.alive
    return bool(settings().mlflow_pages or server_url() or is_up)


def server_url() -> str | None:
    """The server's URL without user name and password; None for a local store."""
    parts = urlsplit(settings().tracking_uri)
    if parts.scheme not in ("http", "https"):
        return None
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def require_server(again: bool = False) -> None:
    """Check that the server responds and accepts the login; does nothing for a local store.

    Sends one request without retries, because MLflow's own retries take minutes. A server that has
    responded once to this process is asked only `again`: the retries wait while it restarts.

    Raises:
        UserError: the server does not respond (retryable), or refuses access.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    server = server_url()
    if server is None or (server in _RESPONDED and not again):
        return
    try:
        response = http_request(
            get_default_host_creds(settings().tracking_uri),
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
    _RESPONDED.add(server)


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
        f"The MLflow server at {server_url()} does not let the user {user} "
        f"write. {LOGIN} of one who may, or ask for the permission EDIT."
    )
