"""Lines that say what is under way when nothing else was logged."""

import logging
import re
import time

import pytest

from infra import heartbeat
from tests.factories.services import wait


def test_quiet_step_is_named_until_something_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "QUIET_SECONDS", 0.5)
    monkeypatch.setattr(logging.getLogger("prefect"), "propagate", True)  # to caplog

    def lines() -> list[str]:
        return [text for text in caplog.messages if text.startswith("Still working")]

    logging.getLogger("prefect.flow_runs").warning("the last sign of life")
    with heartbeat.heartbeat(), heartbeat.step("train char"), heartbeat.step("train baseline"):
        wait("a line", lines)
        monkeypatch.setattr(heartbeat, "QUIET_SECONDS", 10_000.0)
        shown = lines()
        time.sleep(1.2)
    pattern = r"Still working: train char \(\d+ s\), train baseline \(\d+ s\)"
    assert re.fullmatch(pattern, shown[0])
    assert lines() == shown
