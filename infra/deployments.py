"""The flows of prefect.yaml on a Prefect server: deployed anew, with what people paused kept so."""

import os
import subprocess
import sys
from typing import Any

import httpx

from infra.environment import variables
from infra.settings import CHECKOUT

POOL = "local"


def deploy(server: str) -> None:
    """Create the work pool and all deployments, or bring them up to date.

    A deployment or schedule that was paused in the UI stays paused.
    """
    before = {deployment["name"]: deployment for deployment in _deployments(server)}
    _prefect(server, "work-pool", "create", POOL, "--type", "process", "--overwrite")
    _prefect(server, "deploy", "--all")
    for deployment in _deployments(server):
        if deployment["name"] in before:
            _keep_paused(server, before[deployment["name"]], deployment)


def worker_is_online(server: str) -> bool:
    """Whether some worker has told the server that it waits for runs."""
    workers = httpx.post(f"{server}/api/work_pools/{POOL}/workers/filter", json={}).json()
    return any(worker["status"] == "ONLINE" for worker in workers)


def _deployments(server: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.post(f"{server}/api/deployments/filter", json={}).json()
    return found


def _keep_paused(server: str, before: dict[str, Any], now: dict[str, Any]) -> None:
    address = f"{server}/api/deployments/{now['id']}"
    if before["paused"] and not now["paused"]:
        httpx.post(f"{address}/pause_deployment").raise_for_status()
    paused = {one["slug"] for one in before["schedules"] if not one["active"]}
    for schedule in now["schedules"]:
        if schedule["active"] and schedule["slug"] in paused:
            httpx.patch(
                f"{address}/schedules/{schedule['id']}", json={"active": False}
            ).raise_for_status()


def _prefect(server: str, *arguments: str) -> None:
    """Run the command line; its words are shown only where it fails."""
    # prefect.yaml names the checkout by $PWD, which is still the folder that `make -C` came from.
    here = {"PWD": str(CHECKOUT), "PREFECT_API_URL": f"{server}/api"}
    environment = {**variables(), **os.environ, **here}
    command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
    done = subprocess.run(command, env=environment, cwd=CHECKOUT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
