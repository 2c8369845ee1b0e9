"""Ends runs that people cancel, and says so in their log and their progress.

A worker ends the process of a run that it has started. A run that was started in a terminal ends
itself, by Ctrl-C or because its state says so: Prefect only marks it as cancelling.
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter
from prefect.client.schemas.objects import FlowRun
from prefect.logging.loggers import flow_run_logger
from prefect.runtime import flow_run

RESUME = "Started again, the run reuses finished steps, and trainings resume from a checkpoint."
# Seconds between two looks at the state of a run.
INTERVAL = 5.0


@contextmanager
def ending_if_cancelled() -> Iterator[None]:
    """End this process, and what it has started, if its run is cancelled during the block.

    Only for a process that runs nothing else, and in its main thread.
    """
    run_id = str(flow_run.id)
    finished = threading.Event()
    threading.Thread(target=_watch, args=(run_id, finished), daemon=True).start()
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: _interrupt(run_id))
    try:
        yield
    finally:
        finished.set()
        signal.signal(signal.SIGINT, before)


def _watch(run_id: str, finished: threading.Event) -> None:
    with get_client(sync_client=True) as client:
        while not finished.wait(INTERVAL):
            with suppress(httpx.HTTPError):  # the server restarts
                state = client.read_flow_run(UUID(run_id)).state
                if state is not None and (state.is_cancelling() or state.is_cancelled()):
                    _end(run_id)


def _interrupt(run_id: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C
    _end(run_id)


def _end(run_id: str) -> None:
    """Replace this program by one that ends the run.

    The threads of this one would log the end of their workers as failures, or wait for them.
    """
    module = "flows.commands.end_cancelled_run"
    os.execv(sys.executable, [sys.executable, "-m", module, run_id])


def report_cancellation(run: FlowRun) -> None:
    """Say in the run's log, and in its last progress, that it was cancelled."""
    flow_run_logger(run).info(f"Cancelled: all its processes have ended. {RESUME}")
    with get_client(sync_client=True) as client:
        own = {"flow_run_id": {"any_": [run.id]}, "type": {"any_": ["progress"]}}
        for artifact in client.read_artifacts(artifact_filter=ArtifactFilter.model_validate(own)):
            progress = re.sub(r",?\s+[\d:]+ left$", "", artifact.description or "")
            update = ArtifactUpdate(description=f"{progress}, cancelled")
            client.update_artifact(artifact.id, update)
