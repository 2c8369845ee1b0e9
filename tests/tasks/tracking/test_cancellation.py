"""What a cancelled run shows."""

from typing import Any
from uuid import UUID

import pytest
from prefect import flow
from prefect.artifacts import create_progress_artifact
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run

from tasks.tracking.cancellation import report_cancellation
from tests.factories.prefect_artifacts import artifacts

pytestmark = pytest.mark.usefixtures("prefect_server", "root")


TEXTS = {"char": "char epoch 4/9  214 examples/s  1:24:04 left", "read": "read: 3%"}


@flow(name="under-way")
def under_way() -> str:
    for key, text in TEXTS.items():
        create_progress_artifact(3.0, key=f"cancelled-{key}", description=text)
    return str(flow_run.id)


def test_last_progress_says_that_the_run_was_cancelled() -> None:
    run_id = under_way()
    with get_client(sync_client=True) as client:
        report_cancellation(client.read_flow_run(UUID(run_id)))
    (training,), (reading,) = artifacts("cancelled-char"), artifacts("cancelled-read")
    shown: list[Any] = [training["description"], reading["description"]]
    assert shown == ["char epoch 4/9  214 examples/s, cancelled", "read: 3%, cancelled"]
