"""The pages of runs: where links lead, and the report that a repeated run shows again."""

from pathlib import Path
from typing import cast

from flows.common.data import Splits
from flows.common.publish import TrainedVariants, earlier_record
from infra.artifacts.stage import Output
from tasks.reports.run_report import REPORT, write_run
from tests.factories.reports import run_record


def test_earlier_report_has_the_same_examples(root: Path, tmp_path: Path) -> None:
    """Example questions change the pages of errors, but not the stage that writes the report."""
    page, folder = tmp_path / "page.html", root / "reports" / "made"
    page.write_text("<main>")

    def trained(errors: str) -> TrainedVariants:
        report, error_report = (Output(Path(name), {}, True) for name in ("report", errors))
        return TrainedVariants(cast("Splits", None), [], report, [error_report])

    records = [
        run_record(day, report=trained(errors).pages)
        for day, errors in enumerate(("none", "who", "none"))
    ]
    for record in records:
        write_run(folder, record, page, {})
    assert earlier_record(trained("who"), folder) == records[1]
    assert earlier_record(trained("none"), folder) == records[2]
    assert earlier_record(trained("when"), folder) is None
    (folder / records[1].folder / REPORT).unlink()
    assert earlier_record(trained("who"), folder) is None
