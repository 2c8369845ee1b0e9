"""Lines that say what is under way when nothing else was logged."""

import logging
import time

import pytest

from infra import heartbeat
from infra.run_logger import logger


def test_quiet_step_is_named_until_something_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "QUIET_SECONDS", 0.5)
    logger().parent.propagate = True  # type: ignore[union-attr]  # to caplog
    logging.getLogger("prefect.flow_runs").warning("the last sign of life")
    with heartbeat.heartbeat(), heartbeat.step("train char"), heartbeat.step("train baseline"):
        time.sleep(1.5)
        monkeypatch.setattr(heartbeat, "QUIET_SECONDS", 100.0)
        time.sleep(1.2)
    lines = [text for text in caplog.messages if text.startswith("Still working")]
    assert lines == ["Still working: train char (1 s), train baseline (1 s)"]
