"""Deploys the flows of prefect.yaml to a Prefect server, and keeps what users changed there."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from infra.atomic_files import write_atomically
from infra.environment import variables
from infra.errors import UserError
from infra.services.form_schema import form_schema
from infra.services.prefect_api import query, send
from infra.settings import CHECKOUT, settings

TAG = "bidaflow"  # of all deployments in prefect.yaml, and of duplicates made in the UI
SCHEMA = "parameter_openapi_schema"

# The fields of a deployment that both prefect.yaml and users in the UI can set.
EDITABLE_FIELDS = ("paused", "parameters", "schedules")

PATIENCE = 120.0  # seconds, as a deployment should not fail if the server is busy


def deploy() -> None:
    """Create the work pool and all deployments on the server at PREFECT_API_URL, or update them.

    A change made in the UI is kept unless prefect.yaml has changed the same field since the last
    deployment. Duplicates made in the UI get the flow's current form. Deployments of other projects
    stay as they are.

    Raises:
        UserError: their runs would be moved from Kubernetes to this machine.
    """
    _require_own_pool()
    _create_work_pool()
    content = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text(encoding="utf-8"))
    fields = {section["name"]: _editable_fields(section) for section in content["deployments"]}
    # The fields at the last deployment to a server of this root.
    file = settings().root.resolve() / "deployments.json"
    earlier = json.loads(file.read_bytes()) if file.exists() else {}
    _keep_edits(content["deployments"], fields, fields | earlier)
    # Prefect creates or updates a deployment by one request, so an interruption loses no edits.
    with TemporaryDirectory() as folder:
        edited = Path(folder) / "prefect.json"  # JSON is YAML, too
        edited.write_text(json.dumps(content, default=str), encoding="utf-8")
        _prefect("deploy", "--all", "--prefect-file", str(edited))
    own = _own_deployments()
    forms = {d["entrypoint"]: form_schema(d[SCHEMA]) for d in own if d["name"] in fields}
    for deployment in own:
        if form := forms.get(deployment["entrypoint"]):
            _update(f"deployments/{deployment['id']}", {SCHEMA: form})
    write_atomically(file, json.dumps(fields, indent=1) + "\n")


def _editable_fields(section: dict[str, Any]) -> dict[str, str]:
    """The editable fields of a deployment in prefect.yaml, as JSON."""
    return {field: json.dumps(section.get(field), default=str) for field in EDITABLE_FIELDS}


def _keep_edits(
    sections: list[dict[str, Any]],
    fields: dict[str, dict[str, str]],
    earlier: dict[str, dict[str, str]],
) -> None:
    """Give the deployments of prefect.yaml the editable fields of those on the server, except the
    fields that prefect.yaml has changed."""
    query = {"deployments": {"name": {"any_": list(fields)}}}
    found = {(d["name"], d["entrypoint"]): d for d in _query("deployments", query)}
    for section in sections:
        name = section["name"]
        if deployment := found.get((name, section["entrypoint"])):
            deployment["schedules"] = [_schedule(s) for s in deployment["schedules"]]
            kept = [f for f in EDITABLE_FIELDS if fields[name][f] == earlier[name][f]]
            section |= {field: deployment[field] for field in kept}


def _schedule(schedule: dict[str, Any]) -> dict[str, Any]:
    """The fields of a schedule that people can set, as in prefect.yaml."""
    fields = ("active", "parameters", "slug")
    return {**schedule["schedule"], **{field: schedule[field] for field in fields}}


def _require_own_pool() -> None:
    """Check that deployments whose runs are Kubernetes jobs are not moved to this machine.

    Raises:
        UserError: they would be.
    """
    if settings().job_template is not None:
        return
    query = {"work_pools": {"type": {"any_": ["kubernetes"]}}}
    far = {pool["name"] for pool in _query("work_pools", query)}
    for pool in far & {deployment["work_pool_name"] for deployment in _own_deployments()}:
        raise UserError(
            f"The deployments of this Prefect server run on Kubernetes, in its work pool {pool}, "
            "and would run on this machine only. To update them, restart the worker there with a "
            "new image."
        )


def _create_work_pool() -> None:
    """Create the work pool, or update the job template of the existing one.

    Its runs are Kubernetes jobs if a template for them is set, and processes of the worker if not.
    """
    name, template = settings().work_pool, settings().job_template
    if not _query("work_pools", {"work_pools": {"name": {"any_": [name]}}}):
        options = ["--type", "process"]
        if template is not None:
            options = ["--type", "kubernetes", "--base-job-template", str(template)]
        _prefect("work-pool", "create", name, *options)
    elif template is not None:  # `prefect work-pool create --overwrite` would reset its limits, too
        body = {"base_job_template": json.loads(template.read_bytes())}
        _update(f"work_pools/{name}", body)


def _own_deployments() -> list[dict[str, Any]]:
    return _query("deployments", {"deployments": {"tags": {"all_": [TAG]}}})


def _query(things: str, filters: dict[str, Any]) -> list[dict[str, Any]]:
    return query(os.environ["PREFECT_API_URL"], things, filters, PATIENCE)


def _update(path: str, fields: dict[str, Any]) -> None:
    send("PATCH", f"{os.environ['PREFECT_API_URL']}/{path}", fields, PATIENCE)


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
