"""Show the services, what is running, the next scheduled run, and the champions."""

import os
from datetime import datetime

import httpx
from rich.table import Table

from flows.commands.terminal import show, table
from infra.artifacts.live_runs import Note, live_runs
from infra.errors import UserError
from infra.masking import mask_secrets
from infra.processes import ServicesRecord, read_record
from infra.services.deployments import deploy as deploy_flows
from infra.services.prefect_api import next_run, progress_of, require_access, responds
from infra.settings import settings
from tasks.tracking import registry

START = "Start them with: bidaflow up"


def status() -> None:
    """Show the services, the flow runs in progress, the next scheduled run and the champions.

    The services are those of `bidaflow up` and the servers that variables name.

    Raises:
        UserError: BIDAFLOW_MLFLOW_TRACKING_URI names a server that does not respond.
    """
    record = read_record()
    api = os.environ.get("PREFECT_API_URL")
    if record and api == f"{record.prefect_url}/api":
        api = None  # that of `bidaflow up`
    runs = [_run(run_id, run) for run_id, run in live_runs().items()]
    show(
        f"Root       {settings().address or settings().root.resolve()}",
        *([f"Prefect    {mask_secrets(api)}"] if api else []),
        *(_services(record) if record or not api else []),
        *(runs or ["Running    no flow run"]),
        f"Next run   {_next_run(record, api)}",
    )
    show(*_champions())


def deploy() -> None:
    """Create or update the work pool and all deployments on the Prefect server of a cluster.

    The server is that in PREFECT_API_URL, the work pool that in BIDAFLOW_WORK_POOL. Changes made in
    the UI are kept. `bidaflow up` does the same for its own server.

    Raises:
        UserError: no server is named, it does not respond or refuses access, or the runs of its
            deployments would be moved from Kubernetes to this machine.
    """
    api = os.environ.get("PREFECT_API_URL")
    if not api:
        raise UserError(
            "No Prefect server to deploy to. Set PREFECT_API_URL to http://HOST:4200/api."
        )
    require_access(api)
    deploy_flows()
    show(f"Deployed   to {settings().work_pool} at {mask_secrets(api)}")


def _services(record: ServicesRecord | None) -> list[str | Table]:
    if record is None:
        return [f"Services   not running. {START}"]
    if not any(process.alive for process in (record.supervisor, *record.services.values())):
        return [f"Services   not running: `bidaflow up` was killed. {START}"]
    states = table(("service", "state", "process", "URL"), _service_rows(record))
    if record.supervisor.alive:
        return [states]
    return [states, "Services   left by a killed `bidaflow up`. Stop them with: bidaflow down"]


def _service_rows(record: ServicesRecord) -> list[tuple[str, str, str, str]]:
    urls = {"prefect": record.prefect_url, "mlflow": record.mlflow_url}
    rows = []
    for name, process in record.services.items():
        url = urls.get(name, "")
        state = "not responding" if url and not responds(url) else "running"
        rows.append((name, state if process.alive else "stopped", str(process.pid), url))
    return rows


def _run(run_id: str, run: Note) -> str:
    since = f"{datetime.fromtimestamp(run.created):since %a %H:%M}"
    progress = progress_of(run.api, run_id) if run.api else ""
    title = f"{run.flow} {run.name}".strip() or run_id
    return f"Running    {', '.join(filter(None, (title, since, progress)))}"


def _next_run(record: ServicesRecord | None, api: str | None) -> str:
    """The next run of the server at `api`, or of `bidaflow up`."""
    if api is None:
        if record is None or not record.supervisor.alive:
            return "none, as schedules need the services"
        api = f"{record.prefect_url}/api"
    try:
        run = next_run(api)
    except (httpx.HTTPError, httpx.InvalidURL):
        return "unknown, as the request to Prefect failed: `bidaflow doctor` says why"
    if run is None:
        return "none scheduled"
    zone = getattr(run.time.tzinfo, "key", run.time.tzname())
    planned = f"{run.deployment}, {run.time:%a %Y-%m-%d %H:%M} {zone}"
    from flows.common.failures import lacks_dataset  # takes a while to load

    if lacks_dataset(run.flow, run.parameters):
        return f"{planned}\n           It will be refused, because its schedule has no dataset."
    return planned


def _champions() -> list[str]:
    lines = []
    for model in registry.champions():
        f1 = model.tags.get("dev F1")
        score = f", dev F1 {f1}" if f1 else ""
        dataset = model.name.removeprefix("bidaf-")
        lines.append(f"Champion   {dataset}: {registry.title(model).lower()}{score}")
    return lines or ["Champion   none yet. Train one with: bidaflow retrain"]
