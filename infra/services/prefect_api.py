"""Requests to a Prefect server, which take at most seconds: access to it, and what it runs."""

import os
import time
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import httpx

from infra.errors import UserError
from infra.settings import settings

SECONDS = 3.0  # until a server counts as not responding
LOGIN_SECONDS = 10.0  # the same at the start of a run, which should not fail if the server is busy


@dataclass(frozen=True)
class ScheduledRun:
    """A run that a schedule has planned: its deployment, and its time in the schedule's zone."""

    deployment: str
    time: datetime
    flow: str
    parameters: dict[str, Any]


def responds(url: str) -> bool:
    """Whether a server answers at a URL, whatever it answers."""
    try:
        httpx.get(url, timeout=SECONDS)
    except httpx.TransportError:
        return False
    return True


def require_access(api: str) -> httpx.Response:
    """Check that a Prefect server responds, and accepts the login in PREFECT_API_AUTH_STRING.

    Returns its answer, which has its version, or says that it is busy.

    Raises:
        UserError: it does not.
    """
    try:
        response = httpx.get(f"{api}/admin/version", auth=login(), timeout=LOGIN_SECONDS)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise UserError(
            f"No Prefect server responds at {api} ({error}). Start it, or correct or unset "
            "PREFECT_API_URL."
        ) from error
    if response.status_code in (401, 403):
        raise UserError(
            f"The Prefect server at {api} refuses access. Set PREFECT_API_AUTH_STRING to "
            "user:password."
        )
    is_page = response.headers.get("content-type", "").startswith("text/html")
    if response.is_success and is_page:  # not the page of a proxy about an error
        raise UserError(
            f"{api} has web pages, not the API of a Prefect server. Correct PREFECT_API_URL: it "
            "ends in /api."
        )
    return response


def login() -> tuple[str, str] | None:
    """The user and the password in PREFECT_API_AUTH_STRING; None if it is not set."""
    user, _, password = os.environ.get("PREFECT_API_AUTH_STRING", "").partition(":")
    return (user, password) if user else None


def worker_is_online(api: str) -> bool:
    """Whether a worker of our work pool has told the server that it is ready for runs."""
    try:
        workers = query(api, f"work_pools/{settings().work_pool}/workers", {})
    except httpx.HTTPError:  # its database may be locked
        return False
    return any(worker["status"] == "ONLINE" for worker in workers)


def next_run(api: str) -> ScheduledRun | None:
    """The next run of any schedule; None if none is planned.

    Raises:
        httpx.HTTPError: the server does not answer.
    """
    planned = {"state": {"type": {"any_": ["SCHEDULED"]}}, "deployment_id": {"is_null_": False}}
    body = {"flow_runs": planned, "sort": "EXPECTED_START_TIME_ASC", "limit": 1}
    for run in query(api, "flow_runs", body):
        by_id = {"deployments": {"id": {"any_": [run["deployment_id"]]}}}
        (deployment,) = query(api, "deployments", by_id)
        time = datetime.fromisoformat(run["expected_start_time"])
        return ScheduledRun(
            deployment["name"],
            time.astimezone(_zone(run, deployment)),
            (deployment["entrypoint"] or "").rpartition(":")[2].replace("_", "-"),
            run["parameters"],
        )
    return None


def _zone(run: dict[str, Any], deployment: dict[str, Any]) -> tzinfo | None:
    """The time zone of the schedule that planned a run; None, the local one, if it has none."""
    planner = (run["created_by"] or {}).get("id")
    zones = [s["schedule"].get("timezone") for s in deployment["schedules"] if s["id"] == planner]
    return ZoneInfo(zones[0]) if any(zones) else None


def progress_of(api: str, run_id: str) -> str:
    """The latest progress of a flow run, as one line; empty if none is shown."""
    own = {"flow_run_id": {"any_": [run_id]}, "type": {"any_": ["progress"]}}
    try:
        artifacts = query(api, "artifacts", {"artifacts": own, "sort": "UPDATED_DESC", "limit": 1})
    except httpx.HTTPError:
        return ""
    return next((artifact["description"] or "" for artifact in artifacts), "")


def query(
    api: str, things: str, filters: dict[str, Any], patience: float | None = None
) -> list[dict[str, Any]]:
    """The things that fulfil filters of Prefect's API, at most 200; errors as for `send`."""
    response = send("POST", f"{api}/{things}/filter", filters, patience or SECONDS)
    return list(response.json())


def send(method: str, url: str, body: dict[str, Any], patience: float) -> httpx.Response:
    """The response to a request, which is repeated for some seconds if the database is locked.

    Raises:
        httpx.HTTPError: there is no response in these seconds, or its status is 400 or above.
    """
    deadline = time.monotonic() + patience
    while True:
        response = httpx.request(method, url, json=body, auth=login(), timeout=patience)
        is_locked = response.status_code == httpx.codes.SERVICE_UNAVAILABLE
        if not is_locked or time.monotonic() > deadline:
            return response.raise_for_status()
        time.sleep(0.5)
