"""Deploys the flows of prefect.yaml to a Prefect server, and keeps what users changed there."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import urllib3
import yaml

from infra.atomic_files import write_atomically
from infra.environment import variables
from infra.errors import UserError
from infra.processes import belongs_to_root, root_of_processes
from infra.services.form_schema import form_schema
from infra.settings import CHECKOUT, settings

SERVER = urllib3.PoolManager(
    timeout=120,
    # Prefect answers 503 while its database is locked. Without retries, users' changes would be
    # lost.
    retries=urllib3.Retry(
        connect=0, read=0, status_forcelist=[503], allowed_methods=None, backoff_factor=0.5
    ),
    # Connections are not reused: the server may close one just when the next request is sent.
    headers={"Connection": "close"},
)

PAGE = 200  # the largest that Prefect's server returns
SCHEMA = "parameter_openapi_schema"
TAG = "bidaflow"  # of all deployments in prefect.yaml, and of duplicates made in the UI

# The fields of a deployment that both prefect.yaml and users in the UI can set.
EDITABLE_FIELDS = ("paused", "parameters", "schedules")

# The editable fields of each deployment in prefect.yaml, as JSON by deployment and field.
Sections = dict[str, dict[str, str]]


def deploy() -> None:
    """Create the work pool and all deployments on the server at PREFECT_API_URL, or update them.

    A change made in the UI is kept unless prefect.yaml has changed the same field since the last
    deployment. Duplicates made in the UI get the flow's current form. Deployments of other projects
    stay as they are.

    Raises:
        UserError: their runs would be moved from Kubernetes to this machine.
    """
    _require_own_pool()
    file = settings().root.resolve() / "deployments.json"
    # What prefect.yaml contained at the last deployment to a server of this root.
    old_sections: Sections = json.loads(file.read_bytes()) if file.exists() else {}
    # What the server had before a deployment that was killed, and could not restore it.
    saved = file.with_name("deployments-before.json")
    before = {deployment["id"]: deployment for deployment in _query("deployments")}
    before |= saved_deployments(saved)
    save_deployments(saved, before)
    new_sections = old_sections
    try:
        _create_work_pool()
        _prefect("deploy", "--all")
        new_sections = _current_sections()
    finally:  # an interruption leaves some flows deployed: restore them, too
        after = _own_deployments()
        forms = {d["entrypoint"]: d[SCHEMA] for d in after if d["name"] in new_sections}
        for deployment in after:
            if deployment["id"] in before:
                old = old_sections.get(deployment["name"], {})
                new = new_sections.get(deployment["name"], {})
                changed = {field for field in old.keys() & new.keys() if old[field] != new[field]}
                _restore(before.pop(deployment["id"]), deployment, changed)
                # A later deployment must not restore it again, over newer changes.
                save_deployments(saved, before)
            _arrange_form(deployment, forms.get(deployment["entrypoint"], deployment[SCHEMA]))
        saved.unlink(missing_ok=True)
    write_atomically(file, json.dumps(new_sections, indent=1) + "\n")


def save_deployments(file: Path, deployments: dict[str, Any]) -> None:
    """Save deployments, by their ids, until they are restored."""
    content = {"root": root_of_processes(), "deployments": deployments}
    write_atomically(file, json.dumps(content))


def saved_deployments(file: Path) -> dict[str, Any]:
    """The deployments that were saved; none in a copy of the root, because the original may have
    restored them since, on the same server."""
    if not file.exists():
        return {}
    content = json.loads(file.read_bytes())
    return dict(content["deployments"]) if belongs_to_root(content["root"]) else {}


def _require_own_pool() -> None:
    """Check that deployments whose runs are Kubernetes jobs are not moved to this machine.

    Raises:
        UserError: they would be.
    """
    if settings().job_template is not None:
        return
    pools = {deployment["work_pool_name"] for deployment in _own_deployments()} - {None}
    for pool in sorted(pools):
        if _send("GET", f"work_pools/{pool}", {}).json()["type"] == "kubernetes":
            raise UserError(
                f"The deployments of this Prefect server run on Kubernetes, in its work pool "
                f"{pool}, and would run on this machine only. To update them, restart the worker "
                "there with a new image."
            )


def worker_is_online() -> bool:
    """Whether a worker has reported to the server that it is ready for runs."""
    workers = _query(f"work_pools/{settings().work_pool}/workers")
    return any(worker["status"] == "ONLINE" for worker in workers)


def _create_work_pool() -> None:
    """Create the work pool, or update the job template of the existing one.

    Its runs are Kubernetes jobs if a template for them is set, and processes of the worker if not.
    """
    name, template = settings().work_pool, settings().job_template
    if name not in {pool["name"] for pool in _query("work_pools")}:
        options = ["--type", "process"]
        if template is not None:
            options = ["--type", "kubernetes", "--base-job-template", str(template)]
        _prefect("work-pool", "create", name, *options)
    elif template is not None:  # `prefect work-pool create --overwrite` would reset its limits, too
        body = {"base_job_template": json.loads(template.read_bytes())}
        _send("PATCH", f"work_pools/{name}", body)


def _own_deployments() -> list[dict[str, Any]]:
    return [deployment for deployment in _query("deployments") if TAG in deployment["tags"]]


def _query(things: str, filters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """All things that fulfil the filters, from all pages."""
    results: list[dict[str, Any]] = []
    while True:
        query = {**(filters or {}), "limit": PAGE, "offset": len(results)}
        page = _send("POST", f"{things}/filter", query).json()
        results += page
        if len(page) < PAGE:
            return results


def _send(method: str, path: str, body: dict[str, Any]) -> urllib3.BaseHTTPResponse:
    """The response of the Prefect server at PREFECT_API_URL.

    Raises:
        urllib3.exceptions.HTTPError: there is no response, or its status is 400 or above.
    """
    url = f"{os.environ['PREFECT_API_URL']}/{path}"
    login = os.environ.get("PREFECT_API_AUTH_STRING")
    headers = {**SERVER.headers, **urllib3.make_headers(basic_auth=login)}
    response = SERVER.request(method, url, json=body, headers=headers)
    if response.status >= 400:
        raise urllib3.exceptions.HTTPError(f"{method} {url}: {response.status} {response.data!r}")
    return response


def _restore(before: dict[str, Any], deployed: dict[str, Any], changed: set[str]) -> None:
    """Restore a deployment's editable fields, except those known to have changed in prefect.yaml.

    The POST request makes Prefect update the given fields of the deployment of that name and flow.
    Deleting schedules one by one would also delete the runs missed while the server was down.
    """
    fields = {field: (deployed if field in changed else before)[field] for field in EDITABLE_FIELDS}
    _send(
        "POST",
        "deployments/",
        {
            "name": deployed["name"],
            "flow_id": deployed["flow_id"],
            "paused": fields["paused"],
            "parameters": fields["parameters"],
            "schedules": [_schedule(schedule) for schedule in fields["schedules"]],
        },
    )


def _schedule(schedule: dict[str, Any]) -> dict[str, Any]:
    """The fields of a schedule that people can set."""
    return {name: schedule[name] for name in ("schedule", "active", "parameters", "slug")}


def _arrange_form(deployed: dict[str, Any], schema: dict[str, Any]) -> None:
    """Give a deployment the arranged form of its flow's parameters."""
    _send("PATCH", f"deployments/{deployed['id']}", {SCHEMA: form_schema(schema)})


def _current_sections() -> Sections:
    file = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text(encoding="utf-8"))
    return {
        section.get("name", ""): {
            field: json.dumps(section.get(field), default=str) for field in EDITABLE_FIELDS
        }
        for section in file["deployments"]
    }


def command_environment() -> dict[str, str]:
    """The environment of a command that uses the Prefect server, and runs in the checkout."""
    # A relative path is relative to the caller's folder.
    paths = {
        "BIDAFLOW_CACHE": settings().cache.expanduser(),
        "BIDAFLOW_JOB_TEMPLATE": settings().job_template,
        "BIDAFLOW_MIRROR": settings().mirror_folder,
    }
    return {
        **variables(),
        **os.environ,
        # prefect.yaml takes the checkout from $PWD, which `make -C` leaves at the caller's folder.
        "PWD": str(CHECKOUT),
        "BIDAFLOW_ROOT": settings().address or str(settings().root.resolve()),
        **{name: str(path.resolve()) for name, path in paths.items() if path is not None},
        "BIDAFLOW_WORK_POOL": settings().work_pool,
    }


def _prefect(*arguments: str) -> None:
    """Run a Prefect command; its output is shown only if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", *arguments],
        env=command_environment(),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
