"""Cancelling runs; tests/integration does so beside the services of `bidaflow up`."""

import os
import signal
import sqlite3
import subprocess
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect import flow
from prefect.artifacts import create_progress_artifact
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run

from infra.settings import CHECKOUT
from tasks.tracking.cancellation import report_cancellation
from tests.factories.cli import BIDAFLOW, environment_for
from tests.factories.http_server import http_server
from tests.factories.prefect_artifacts import artifacts

PATIENCE = 300  # seconds
TEXTS = {"char": "char epoch 4/9  214 examples/s  1:24:04 left", "read": "read: 3%"}


@flow(name="under-way")
def under_way() -> str:
    for key, text in TEXTS.items():
        create_progress_artifact(3.0, key=f"cancelled-{key}", description=text)
    return str(flow_run.id)


@pytest.mark.usefixtures("prefect_server", "root")
def test_last_progress_says_that_the_run_was_cancelled() -> None:
    run_id = under_way()
    with get_client(sync_client=True) as client:
        report_cancellation(client.read_flow_run(UUID(run_id)))
    (training,), (reading,) = artifacts("cancelled-char"), artifacts("cancelled-read")
    shown: list[Any] = [training["description"], reading["description"]]
    assert shown == ["char epoch 4/9  214 examples/s, cancelled", "read: 3%, cancelled"]


@pytest.mark.heavy
def test_ctrl_c_cancels_a_run_without_services(tmp_path: Path) -> None:
    """A terminal sends it to all processes, and so also to the temporary Prefect server."""
    asked, ended = threading.Event(), threading.Event()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.set()
            ended.wait(PATIENCE)

        do_HEAD = do_GET

    with http_server(Slow) as address:
        process = subprocess.Popen(
            [BIDAFLOW, "ingest", "--data.dataset", f"{address}/tickets.json"],
            env=environment_for(tmp_path),
            cwd=CHECKOUT,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert asked.wait(PATIENCE)
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE)
        finally:
            ended.set()
            process.kill()
    assert process.returncode == 1 and "Cancelled. Started again, the run" in errors, errors
    with closing(sqlite3.connect(tmp_path / "prefect" / "prefect.db")) as database:
        assert database.execute("SELECT state_type FROM flow_run").fetchall() == [("CANCELLED",)]
