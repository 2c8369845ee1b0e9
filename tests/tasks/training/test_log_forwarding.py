"""Output of workers in the log of a real flow run, and the run's progress."""

import io
import threading

import pytest
from prefect import flow
from rich.console import Console

from tasks.training import log_forwarding as module
from tasks.training.log_forwarding import forwarding_logs
from tests.factories.prefect_artifacts import artifacts

pytestmark = pytest.mark.usefixtures("prefect_server", "root")

PREFIX = "\x1b[36m(RayTrainWorker pid=12)\x1b[0m "


@flow
def printing(lines: list[str]) -> None:
    """Prints from another thread, as Ray does."""
    with forwarding_logs():
        for line in lines:
            thread = threading.Thread(target=print, args=(line,))
            thread.start()
            thread.join()


def test_forwards_lines_and_restores_stdout(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    printing([f"{PREFIX}char epoch 1: train nll 2.5", "not from a worker"])
    assert "char epoch 1: train nll 2.5" in caplog.messages
    assert "not from a worker" in caplog.messages
    print("afterwards")
    assert "afterwards" in capsys.readouterr().out


def test_progress_spans_all_epochs_and_ends_at_100() -> None:
    printing([f"{PREFIX}halfway epoch 2/4 step 10/20  nll 2.31  372 examples/s  1:23 left"])
    (artifact,) = artifacts("progress-halfway")
    assert artifact["flow_run_id"] is not None
    assert artifact["data"] == 100
    assert "372 examples/s  1:23 left" in artifact["description"]


STEPS = (
    f"{PREFIX}char epoch 2/4 step 10/20  nll 2.31  372 examples/s  1:23 left",
    f"{PREFIX}char epoch 2: train nll 2.5",
    f"{PREFIX}char ended: all epochs are done.",
)


@pytest.mark.parametrize("terminal", [True, False])
def test_terminal_shows_a_bar_instead_of_step_lines(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=terminal, force_interactive=terminal, width=80)
    monkeypatch.setattr(module, "log_console", lambda: console)
    printing(list(STEPS))
    step, *others = (line.removeprefix(PREFIX) for line in STEPS)
    assert set(others) <= set(caplog.messages)
    assert (step in caplog.messages) is not terminal
    bar = drawn.getvalue()
    if terminal:
        assert "char epoch 2/4" in bar and "nll 2.31  372 examples/s  1:23 left" in bar
    else:
        assert bar == ""
