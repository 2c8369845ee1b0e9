"""Output of workers in the log of a real flow run."""

import threading

import pytest
from prefect import flow

from tasks.training.log_forwarding import forwarding_logs

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
    printing([f"{PREFIX}MLflow is unreachable", f"{PREFIX}  at (pid=3) x", "not from a worker"])
    assert "MLflow is unreachable" in caplog.messages
    assert "  at (pid=3) x" in caplog.messages
    assert "not from a worker" in caplog.messages
    print("afterwards")
    assert "afterwards" in capsys.readouterr().out
