"""Outputs of stages for reports, with chosen predictions, and records of runs."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tasks.evaluation.evaluate import EvaluationSplit
from tasks.reports.run_report import RunRecord, VariantScores
from tasks.reports.training_report import report_variants
from tasks.tracking.runs import Split
from tests.factories.splits import predict_spans


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
) -> Path:
    """Write the output of the stage `train` with these predicted spans, of rising confidence.

    `more` has the training's `history` and `config`, and facts. Returns its folder.
    """
    out = folder / f"variant-{len(list(folder.iterdir()))}"
    out.mkdir()
    predict_spans(out, split, spans)
    config = more.pop("config", {"model": {"hidden_size": 100}})
    write_json(out / "history.json", more.pop("history", history(3)))
    write_json(out / "config.json", config)
    facts = {"run_url": None, "scores": {}, "threshold": None, "no_threshold": None}
    facts |= {"expected_no_answer": None, "parameters": 1000, "trained_on": 100, "mixes": {}}
    facts["temperature"] = 1.0
    write_json(out / "manifest.json", {"facts": {"variant": name, **facts, **more}})
    return out


def written_report(
    folder: Path,
    variants: list[Path],
    dataset: str = "made",
    facts: dict[Split, dict[str, float]] | None = None,
    vocabulary: dict[str, Any] | None = None,
) -> str:
    """The report on variants; `facts` are those of ingested splits, of which dev is in `folder`."""
    splits: dict[Split, Path] = {"train": folder / "train", "dev": folder}
    for name, split in splits.items():
        split.mkdir(exist_ok=True)
        write_json(split / "manifest.json", {"facts": (facts or {}).get(name, {"questions": 1})})
    (folder / "vocabulary").mkdir(exist_ok=True)
    write_json(folder / "vocabulary" / "manifest.json", {"facts": vocabulary or {}})
    report_variants(folder, dataset, variants, splits, folder / "vocabulary")
    return (folder / "report.html").read_text(encoding="utf-8")


def run_record(day: int, f1: dict[str, float] | None = None, **more: Any) -> RunRecord:
    """The record of a run on a day, with the F1 of its variants."""
    variants = [
        VariantScores(
            name=name,
            em=score - 10,
            f1=score,
            trained_now=True,
            dev_digest="dev",
            stage=f"{name}-{day}",
            run_url=f"http://127.0.0.1:5000/#/runs/{name}-{day}",
        )
        for name, score in (f1 or {"char": 50.0 + day}).items()
    ]
    fields = {
        "name": f"run-{day}",
        "dataset": "made",
        "started": datetime(2026, 3, 1, 6, 30, tzinfo=UTC) + timedelta(days=day),
        "report": f"report-{day}",
        "variants": variants,
        "decision": None,
        "sentence": None,
        "commit": "0123abc",
        "command": "bidaflow retrain --data.dataset made",
        "prefect_url": f"http://127.0.0.1:4200/runs/flow-run/{day}",
        "mlflow_url": f"http://127.0.0.1:5000/#/runs/{day}",
        "report_url": f"http://127.0.0.1:5000/#/runs/{day}/artifacts/report.html",
    }
    return RunRecord(**fields | more)


def vector_evaluation(
    folder: Path,
    spearman: dict[str, tuple[float, float]],
    covered: float | None = None,
) -> Path:
    """Write an evaluation of a set of vectors; returns its folder.

    `spearman` has the correlation and the coverage of tests of 1,000 pairs each, and `covered` the
    share of the dataset's tokens.
    """
    similarity = {
        name: {"spearman": value, "pairs": 1_000, "covered": share, "composed": 0.0}
        for name, (value, share) in spearman.items()
    }
    missing = [f"unknownword{i}" for i in range(9)]
    band = {"tokens": 1_000, "types": 90, "types_covered": 0.5, "missing": missing}
    evaluation = {
        "words": 40_000,
        "dimension": 50,
        "subwords": False,
        "coverage": {} if covered is None else {"all": band | {"tokens_covered": covered}},
        "similarity": similarity,
        "homonyms": {"mean of context": {"accuracy": 0.7, "questions": 540, "covered": 1.0}},
        "analogies": {"all": {"accuracy": 0.4, "questions": 1_000, "covered": 0.9}},
        "bias": {"flowers, insects: pleasant, unpleasant": {"effect": 1, "p": 0.01, "covered": 1}},
        "neighbours": {"mill": [("windmill", 0.8), ("river", 0.7)]},
        "asked": {},
    }
    folder.mkdir()
    write_json(folder / "evaluation.json", evaluation)
    return folder


def write_json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value), encoding="utf-8")
