"""Results of variants for reports, with chosen predictions."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from models.span_decoding import Predictions
from tasks.evaluation.evaluate import EvaluationSplit, evaluate, write_predictions
from tasks.reports.training_report import ReportData, VariantResult, write_report

CREATED = datetime(2025, 11, 21, 4, 30, tzinfo=UTC)


def history(epochs: int) -> list[dict[str, float]]:
    return [
        {
            "epoch": epoch,
            "train/nll": 6.0 / epoch,
            "dev/nll": 7.0 / epoch,
            "dev/em": 40.0 + epoch,
            "dev/f1": 50.0 + epoch,
            "dev/avna": 60.0,
            "examples_per_second": 210.0,
            "seconds": 90.0 * epoch,
        }
        for epoch in range(1, epochs + 1)
    ]


def variant(
    folder: Path, split: EvaluationSplit, name: str, spans: list[tuple[int, int]], **more: Any
) -> VariantResult:
    """The result of a variant with these predicted spans, in order of rising confidence."""
    start, end = np.array(spans).T
    scores = np.linspace(-2, -0.1, len(spans))
    file = folder / f"{name}.parquet"
    answers = Predictions(start, end, scores, scores - 1.0)
    write_predictions(file, split, evaluate(split, answers))
    more = {"history": history(3), "config": {"model": {"hidden_size": 100}}, **more}
    return VariantResult(name, predictions=file, **more)


def written_report(folder: Path, variants: list[VariantResult], **data: Any) -> str:
    fields = {"dataset": "made", "evaluation": folder, "splits": {}, **data}
    write_report(folder / "report.html", variants, ReportData(**fields), CREATED)
    return (folder / "report.html").read_text(encoding="utf-8")
