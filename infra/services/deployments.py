"""Deploys the flows of prefect.yaml to a Prefect server, and keeps what users changed there."""

import json
import os
import subprocess
import sys
from collections.abc import Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import urllib3
import yaml

from infra.environment import variables
from infra.settings import CHECKOUT, settings

POOL = "local"

WHILE_LOCKED = urllib3.Retry(
    connect=0, read=0, status_forcelist=[503], allowed_methods=None, backoff_factor=0.5
)
"""Prefect answers 503 while its database is locked. Without retries, users' changes
would be lost."""

SERVER = urllib3.PoolManager(timeout=120, retries=WHILE_LOCKED, headers={"Connection": "close"})
"""Connections are not reused: the server may close one just when the next request is sent."""

OURS = "bidaflow"
"""The tag of all deployments in prefect.yaml."""

SCHEMA = "parameter_openapi_schema"

CHANGEABLE = ("paused", "parameters", "schedules")
"""The fields of a deployment that both prefect.yaml and users in the UI can set."""

RENAMED_DEPLOYMENTS = {"judge-embeddings": "evaluate-embeddings"}
"""Names of deployments in earlier releases, and what they are called now."""

FORMER_ENTRYPOINTS = {
    "flows/compare.py:compare_variants": "compare-variants",
    "flows/judge_embeddings.py:judge_embeddings": "evaluate-embeddings",
    "flows/vocabulary.py:build_vocabulary": "build-vocabulary",
}
"""Entrypoints of flows in earlier releases, and the deployments of the same flows today."""

Sections = dict[str, dict[str, str]]
"""The changeable fields of each deployment in prefect.yaml, as JSON by deployment and field."""


class Rejected(urllib3.exceptions.HTTPError):
    """The server answered, and does not accept the request."""


def deploy(server: str) -> None:
    """Create the work pool and all deployments, or bring them up to date.

    A change made in the UI is kept unless prefect.yaml has changed the same field since the last
    deployment. A deployment that an earlier release created under another name hands its settings
    and its pending runs over to its successor, and is removed. Other deployments of moved flows,
    such as duplicates made in the UI, get the flow's new entrypoint.
    """
    before = {deployment["id"]: deployment for deployment in _deployments(server)}
    then = now = _remembered()
    try:
        _prefect(server, "work-pool", "create", POOL, "--type", "process", "--overwrite")
        _prefect(server, "deploy", "--all")
        now = _sections()
    finally:  # an interruption leaves some flows deployed: restore them, too
        after = _deployments(server)
        _follow_moved_flows(after, now.keys())
        for one in after:
            if one["id"] in before:
                rewritten = _rewritten(then.get(one["name"], {}), now.get(one["name"], {}))
                _restore(server, before[one["id"]], one, rewritten)
            _close(server, one)
        _replace_renamed(server)
    _remember(now)


def worker_is_online(server: str) -> bool:
    """Whether a worker has reported to the server that it is ready for runs."""
    workers = _asked(f"{server}/api/work_pools/{POOL}/workers/filter")
    return any(worker["status"] == "ONLINE" for worker in workers)


def _deployments(server: str) -> list[dict[str, Any]]:
    return _asked(f"{server}/api/deployments/filter")


def _asked(address: str, wanted: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _told("POST", address, wanted or {}).json()
    return found


def _told(method: str, address: str, update: dict[str, Any]) -> urllib3.BaseHTTPResponse:
    """The server's response.

    Raises:
        urllib3.exceptions.HTTPError: there is no response, or its status is 400 or above.
    """
    answer = SERVER.request(method, address, json=update)
    if answer.status >= 400:
        error = Rejected if answer.status < 500 else urllib3.exceptions.HTTPError
        raise error(f"{method} {address}: {answer.status} {answer.data!r}")
    return answer


def _rewritten(then: dict[str, str], now: dict[str, str]) -> set[str]:
    """The fields known to have changed in prefect.yaml since the last deployment."""
    return {field for field in then.keys() & now.keys() if then[field] != now[field]}


def _follow_moved_flows(deployments: list[dict[str, Any]], current: Set[str]) -> None:
    """Give every deployment of a moved flow, duplicates made in the UI too, what prefect.yaml gives
    the current one."""
    by_name = {one["name"]: one for one in deployments if one["name"] in current}
    moved = {
        old: by_name[name]["entrypoint"]
        for old, name in FORMER_ENTRYPOINTS.items()
        if name in by_name
    }
    schemas = {one["entrypoint"]: one[SCHEMA] for one in by_name.values()}
    for one in deployments:
        one["entrypoint"] = moved.get(one["entrypoint"], one["entrypoint"])
        one[SCHEMA] = schemas.get(one["entrypoint"], one[SCHEMA])


def _restore(
    server: str, before: dict[str, Any], deployed: dict[str, Any], rewritten: set[str]
) -> None:
    """Restore a deployment's changeable fields, except those rewritten in prefect.yaml.

    The POST request makes Prefect update the given fields of the deployment of that name and flow.
    Deleting schedules one by one would also delete the runs missed while the server was down.
    """
    fields = {field: (deployed if field in rewritten else before)[field] for field in CHANGEABLE}
    update = {
        "name": deployed["name"],
        "flow_id": deployed["flow_id"],
        "paused": fields["paused"],
        "parameters": fields["parameters"],
        "schedules": [_schedule(one) for one in fields["schedules"]],
    }
    _told("POST", f"{server}/api/deployments/", update)


def _schedule(schedule: dict[str, Any]) -> dict[str, Any]:
    """The fields of a schedule that people can set."""
    return {name: schedule[name] for name in ("schedule", "active", "parameters", "slug")}


def _close(server: str, deployed: dict[str, Any]) -> None:
    """Make the server refuse parameters that the flow does not have; by default it accepts them."""
    schema = {**deployed[SCHEMA], "additionalProperties": False}
    update = {SCHEMA: schema, "entrypoint": deployed["entrypoint"]}
    _told("PATCH", f"{server}/api/deployments/{deployed['id']}", update)


def _replace_renamed(server: str) -> None:
    """Let each renamed deployment's successor take its place. Interrupted, it can be repeated."""
    ours = {one["name"]: one for one in _deployments(server) if OURS in one["tags"]}
    for old, new in RENAMED_DEPLOYMENTS.items():
        if old in ours and new in ours:
            _restore(server, _merged(ours[old], ours[new]), ours[new], rewritten=set())
            for run in _pending_runs(server, ours[old]):
                _schedule_run(server, run, ours[new])
            # With it Prefect deletes its scheduled runs, those that people asked for as well.
            _told("DELETE", f"{server}/api/deployments/{ours[old]['id']}", {})


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The changeable fields of a deployment and its successor together; the old values win."""
    schedules = [_schedule(one) for one in old["schedules"]]
    slugs = {one["slug"] for one in schedules} - {None}
    added = [_schedule(one) for one in new["schedules"] if one["slug"] not in slugs]
    return {
        "paused": old["paused"] or new["paused"],
        "parameters": {**new["parameters"], **old["parameters"]},
        "schedules": [*schedules, *(one for one in added if one not in schedules)],
    }


def _pending_runs(server: str, deployment: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs that people scheduled, and missed ones; a schedule creates its future ones again."""
    wanted = {
        "deployments": {"id": {"any_": [deployment["id"]]}},
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
    }
    now = datetime.now(UTC)
    return [
        run
        for run in _asked(f"{server}/api/flow_runs/filter", wanted)
        if not run["auto_scheduled"] or datetime.fromisoformat(run["expected_start_time"]) < now
    ]


def _schedule_run(server: str, run: dict[str, Any], deployment: dict[str, Any]) -> None:
    """Schedule a run of a renamed deployment for the same time by its successor, once."""
    start = {"scheduled_time": run["expected_start_time"]}
    again = {
        "name": run["name"],
        "tags": run["tags"],
        "parameters": run["parameters"],
        "job_variables": run["job_variables"],
        "state": {"type": "SCHEDULED", "state_details": start},
        "idempotency_key": f"successor of {run['id']}",
    }
    try:
        _told("POST", f"{server}/api/deployments/{deployment['id']}/create_flow_run", again)
    except Rejected as error:
        print(f"Run {run['name']} is no longer valid. Start it again in the UI. ({error})")


def _sections() -> Sections:
    file = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text(encoding="utf-8"))
    return {
        section.get("name", ""): {
            field: json.dumps(section.get(field), default=str) for field in CHANGEABLE
        }
        for section in file["deployments"]
    }


def _remembered() -> Sections:
    """What prefect.yaml contained at the last deployment to a server of this root."""
    if not _memory().exists():
        return {}
    found: Sections = json.loads(_memory().read_text(encoding="utf-8"))
    return found


def _remember(sections: Sections) -> None:
    new = _memory().with_suffix(".new")
    new.write_text(json.dumps(sections, indent=1) + "\n", encoding="utf-8")
    new.rename(_memory())


def _memory() -> Path:
    return settings().root.resolve() / "deployments.json"


def _prefect(server: str, *arguments: str) -> None:
    """Run a Prefect command; its output is shown only if it fails."""
    # prefect.yaml takes the checkout from $PWD, which `make -C` leaves at the caller's folder.
    here = {"PWD": str(CHECKOUT), "PREFECT_API_URL": f"{server}/api"}
    environment = {**variables(), **os.environ, **here}
    command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
    done = subprocess.run(command, env=environment, cwd=CHECKOUT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
