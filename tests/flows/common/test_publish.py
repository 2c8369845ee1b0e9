"""The pages that list all runs, written by runs that end together."""

from pathlib import Path
from threading import Thread

from flows.common.publish import update_index
from infra.artifacts.locks import exclusive_lock
from tests.factories.logs import watched_log


def test_one_run_at_a_time_lists_the_runs(root: Path) -> None:
    other = Thread(target=update_index)
    lock = exclusive_lock(root / "locks" / "reports", "")
    with lock, watched_log("Waiting for another run") as waiting:
        other.start()
        assert waiting.wait(600)
        assert not (root / "reports" / "index.html").exists()
    other.join()
    assert (root / "reports" / "index.html").exists()
