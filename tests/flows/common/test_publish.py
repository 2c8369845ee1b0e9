"""The pages that list all runs, written by runs that end together."""

from pathlib import Path
from threading import Thread

from flows.common.publish import update_index
from infra.artifacts.locks import exclusive_lock


def test_one_run_at_a_time_lists_the_runs(root: Path) -> None:
    other = Thread(target=update_index)
    with exclusive_lock(root / "locks" / "reports", ""):
        other.start()
        other.join(timeout=2)
        assert other.is_alive() and not (root / "reports" / "index.html").exists()
    other.join()
    assert (root / "reports" / "index.html").exists()
