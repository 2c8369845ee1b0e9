"""The flows of prefect.yaml on a Prefect server: deployed anew, with what people changed kept."""

import json
import os
import subprocess
import sys
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
"""Prefect answers 503 while its database is locked: given up, what people changed would be lost."""

SERVER = urllib3.PoolManager(timeout=120, retries=WHILE_LOCKED, headers={"Connection": "close"})
"""No connection is kept: the server may give one up just when the next request is sent."""

CHANGEABLE = ("paused", "parameters", "schedules")
"""What of a deployment both prefect.yaml and people in the UI can set."""

Sections = dict[str, dict[str, str]]
"""What prefect.yaml says of each deployment: the text of each changeable field."""


def deploy(server: str) -> None:
    """Create the work pool and all deployments, or bring them up to date.

    What people changed in the UI stays so, but for what prefect.yaml says otherwise than it did at
    the last deployment.
    """
    before = {deployment["id"]: deployment for deployment in _deployments(server)}
    then = now = _remembered()
    try:
        _prefect(server, "work-pool", "create", POOL, "--type", "process", "--overwrite")
        _prefect(server, "deploy", "--all")
        now = _sections()
    finally:  # where it is interrupted, some are deployed: all that was there before is
        for one in _deployments(server):
            if one["id"] in before:
                rewritten = _rewritten(then.get(one["name"], {}), now.get(one["name"], {}))
                _restore(server, before[one["id"]], one, rewritten)
            _close(server, one)
    _remember(now)


def worker_is_online(server: str) -> bool:
    """Whether some worker has told the server that it waits for runs."""
    workers = _asked(f"{server}/api/work_pools/{POOL}/workers/filter")
    return any(worker["status"] == "ONLINE" for worker in workers)


def _deployments(server: str) -> list[dict[str, Any]]:
    return _asked(f"{server}/api/deployments/filter")


def _asked(address: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _told("POST", address, {}).json()
    return found


def _told(method: str, address: str, update: dict[str, Any]) -> urllib3.BaseHTTPResponse:
    """The server's answer.

    Raises:
        urllib3.exceptions.HTTPError: there is none, or it is a refusal.
    """
    answer = SERVER.request(method, address, json=update)
    if answer.status >= 400:
        raise urllib3.exceptions.HTTPError(f"{method} {address}: {answer.status} {answer.data!r}")
    return answer


def _rewritten(then: dict[str, str], now: dict[str, str]) -> set[str]:
    """The fields that prefect.yaml is known to have said something else of."""
    return {field for field in then.keys() & now.keys() if then[field] != now[field]}


def _restore(
    server: str, before: dict[str, Any], deployed: dict[str, Any], rewritten: set[str]
) -> None:
    """Set a deployment's changeable fields to what they were, but for the rewritten ones.

    Prefect updates the deployment of that name and flow by the fields given. Deleting schedules
    one by one would also delete the runs that were missed while nothing was up.
    """
    fields = {field: (deployed if field in rewritten else before)[field] for field in CHANGEABLE}
    given = ("schedule", "active", "parameters", "slug")
    schedules = [{name: one[name] for name in given} for one in fields["schedules"]]
    which = {"name": deployed["name"], "flow_id": deployed["flow_id"]}
    update = {**which, **fields, "schedules": schedules}
    _told("POST", f"{server}/api/deployments/", update)


def _close(server: str, deployed: dict[str, Any]) -> None:
    """Let the server refuse parameters that the flow does not have: Prefect does not by itself."""
    schema = {**deployed["parameter_openapi_schema"], "additionalProperties": False}
    address = f"{server}/api/deployments/{deployed['id']}"
    _told("PATCH", address, {"parameter_openapi_schema": schema})


def _sections() -> Sections:
    file = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text(encoding="utf-8"))
    return {
        section.get("name", ""): {
            field: json.dumps(section.get(field), default=str) for field in CHANGEABLE
        }
        for section in file["deployments"]
    }


def _remembered() -> Sections:
    """What prefect.yaml said at the last deployment to a server of this root."""
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
    """Run the command line; its words are shown only where it fails."""
    # prefect.yaml names the checkout by $PWD, which is still the folder that `make -C` came from.
    here = {"PWD": str(CHECKOUT), "PREFECT_API_URL": f"{server}/api"}
    environment = {**variables(), **os.environ, **here}
    command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
    done = subprocess.run(command, env=environment, cwd=CHECKOUT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
