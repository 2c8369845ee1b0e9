"""The pages of runs: lists of all runs, and the page that a repeated run shows again."""

from pathlib import Path
from threading import Thread
from typing import cast

from flows.common.publish import earlier_report, update_index
from flows.common.results import TrainedVariants
from flows.common.splits import Splits
from infra.artifacts.locks import exclusive_lock
from infra.artifacts.stage import Output
from tasks.reports.run_report import REPORT, write_run
from tests.factories.logs import watched_log
from tests.factories.reports import run_record


def test_one_run_at_a_time_lists_the_runs(root: Path) -> None:
    other = Thread(target=update_index)
    lock = exclusive_lock(root / "locks" / "reports", "")
    with lock, watched_log("Waiting for another run") as waiting:
        other.start()
        assert waiting.wait(600)
        assert not (root / "reports" / "index.html").exists()
    other.join()
    assert (root / "reports" / "index.html").exists()


def test_earlier_report_has_the_same_examples(root: Path, tmp_path: Path) -> None:
    """Example questions change the pages of errors, but not the stage that writes the report."""
    page, folder = tmp_path / "page.html", root / "reports" / "made"
    page.write_text("<main>")

    def trained(errors: str) -> TrainedVariants:
        report, error_report = (Output(Path(name), {}, True) for name in ("report", errors))
        return TrainedVariants(cast("Splits", None), [], report, [error_report])

    reports = [
        write_run(folder, run_record(day, report=trained(errors).pages), page, {})
        for day, errors in enumerate(("none", "who", "none"))
    ]
    assert earlier_report(trained("who"), folder) == reports[1]
    assert earlier_report(trained("none"), folder) == reports[2]
    assert earlier_report(trained("when"), folder) is None
    (folder / reports[1].parent.name / REPORT).unlink()
    assert earlier_report(trained("who"), folder) is None
