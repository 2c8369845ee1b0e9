"""End a run that was started in a terminal and cancelled there or in Prefect.

It runs in the process of the run, in its place.

Usage: python -m flows.commands.end_cancelled_run FLOW_RUN_ID
"""

import sys
from contextlib import suppress
from uuid import UUID

import httpx
import psutil
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.states import Cancelled

from infra.artifacts.live_runs import notes
from infra.processes import end
from tasks.tracking.life_cycle import RESUME, end_flow_run


def main(run_id: str) -> None:
    """End the run's processes, tasks and MLflow runs, and mark it as cancelled."""
    note = notes().get(run_id)
    state: State[None] = Cancelled(message="Flow run was cancelled.")
    with suppress(httpx.HTTPError), get_client(sync_client=True) as client:
        end_flow_run(client.read_flow_run(UUID(run_id)), state)
        client.set_flow_run_state(UUID(run_id), state, force=True)
    end(psutil.Process().children(), patience=10)  # a temporary Prefect server
    command = f"\nIt resumes with: {note.command}" if note else ""
    sys.exit(f"Cancelled. {RESUME}{command}")


if __name__ == "__main__":
    main(sys.argv[1])
