"""The report that compares trained variants, as one self-contained HTML page."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from infra.artifacts.manifest import facts_of
from models.squad_metrics import answer_versus_none
from tasks.embeddings.formats.select import packaged_words
from tasks.evaluation.evaluate import EvaluationSplit, load_split
from tasks.evaluation.predictions import Columns, mean, read_predictions
from tasks.evaluation.slices import slice_table, slicings
from tasks.reports import error_report
from tasks.reports.calibration_section import VariantPredictions, calibration_view
from tasks.reports.examples import example, first_per_context, rows_by_confidence
from tasks.reports.html import digits, plain, render, whole
from tasks.reports.line_charts import MARKERS, Points, View, line, plot
from tasks.tracking.runs import Split, flatten

EXAMPLES = 5
"""Number of correct and of wrong predictions shown for each variant."""
CHARTS = [
    ("Loss", "NLL, nats", {"train/nll": "training", "dev/nll": "evaluation"}),
    ("F1", "F1, %", {"dev/f1": "evaluation"}),
    ("Exact match", "EM, %", {"dev/em": "evaluation"}),
]


@dataclass(frozen=True)
class VariantResult:
    """One trained variant: its configuration, training history and predictions.

    `history` has MLflow's metric names: "epoch", "train/nll", "dev/nll", "dev/em", "dev/f1",
    "examples_per_second", "seconds" (of training since its start).
    """

    name: str
    config: Mapping[str, Any]  # nested plain values
    history: Sequence[Mapping[str, float]]  # one row per epoch
    predictions: Path  # predictions.parquet of the epoch that was kept
    facts: Mapping[str, Any] = field(default_factory=dict)  # counts: "parameters", excluding word
    # embeddings, and "trained_on", the questions used for training
    mlflow_run_url: str | None = None
    errors: str | None = None  # URL of the error report, relative to this report
    scores: Mapping[str, float] = field(default_factory=dict)  # of the epoch that was kept
    threshold: float | None = None  # no-answer threshold, chosen on validation
    no_threshold_reason: str | None = None  # why there is no threshold


@dataclass(frozen=True)
class ReportData:
    """The data shared by all variants of a report."""

    dataset: str
    evaluation: Path  # the ingested split that the predictions are for
    splits: Mapping[str, Mapping[str, float]]  # facts of `ingest_articles`: "train", ...
    vocabulary: Mapping[str, Any] = field(default_factory=dict)  # facts of `build_vocabulary`


@dataclass(frozen=True)
class _ScoredVariant:
    variant: VariantResult
    columns: Columns

    @property
    def predictions(self) -> VariantPredictions:
        """The predictions in the form that the calibration section needs."""
        return VariantPredictions(
            self.variant.name,
            self.columns,
            self.variant.threshold,
            self.variant.no_threshold_reason,
        )


def write_report(
    out_file: Path,
    variants: Sequence[VariantResult],
    data: ReportData,
    created: datetime | None = None,
) -> None:
    """Write the page to `out_file`: scores, learning curves, slices, examples, data, settings.

    `created` is the time shown on the page, by default now.

    Raises:
        ValueError: there are no variants.
        UserError: a variant's predictions do not match the questions of the evaluation split.
    """
    if not variants:
        raise ValueError("a report needs at least one variant")
    split = load_split(data.evaluation)
    scored = [
        _ScoredVariant(variant, read_predictions(variant.predictions, split, variant.name))
        for variant in variants
    ]
    view = _view(scored, split, data, created or datetime.now().astimezone())
    out_file.write_text(render("report.html.j2", view), encoding="utf-8")


def _view(
    scored: Sequence[_ScoredVariant], split: EvaluationSplit, data: ReportData, created: datetime
) -> View:
    table = [_summary(variant, split) for variant in scored]
    return {
        "dataset": data.dataset,
        "created": created,
        "questions": len(split),
        "contexts": len(split.contexts),
        "training": data.splits.get("train"),
        "v2": split.v2,
        "variants": table,
        "best_variant": max(table, key=lambda row: row["f1"]),
        "best": _best(table),
        "markers": [list(MARKERS.values())[i % len(MARKERS)] for i in range(len(scored))],
        "charts": [chart for chart in (_chart(scored, *spec) for spec in CHARTS) if chart],
        "calibration": calibration_view([variant.predictions for variant in scored], split),
        "slices": [
            slice_table(slicing, [variant.columns for variant in scored])
            for slicing in slicings(split, packaged_words(), "GloVe 6B")
        ],
        "examples": [_examples(variant, split) for variant in scored],
        "data_rows": _data_rows(data.splits),
        "splits": list(data.splits),
        "vocabulary": _vocabulary(data.vocabulary),
        "settings": _settings([scored_variant.variant for scored_variant in scored]),
    }


# Scores of whole variants


def _summary(scored: _ScoredVariant, split: EvaluationSplit) -> View:
    """The variant's table row, with None for unknown values."""
    variant, columns = scored.variant, scored.columns
    all_questions = np.ones(len(split), bool)
    correct_avna = map(answer_versus_none, columns["prediction"], split.gold_texts)
    last = variant.history[-1] if variant.history else {}
    kept = {**last, **variant.scores}
    return {
        "name": variant.name,
        "em": mean(columns["em"], all_questions),
        "em_margin": _margin(columns["em"]),
        "f1": mean(columns["f1"], all_questions),
        "f1_margin": _margin(columns["f1"]),
        "avna": 100 * sum(correct_avna) / len(split),
        "nll": kept.get("dev/nll"),
        "at_threshold": _scores_with(kept, "at_threshold"),
        "within": _within(kept, variant, split),
        "parameters": variant.facts.get("parameters"),
        "trained_on": variant.facts.get("trained_on"),
        "epochs": len(variant.history),
        "minutes": last["seconds"] / 60 if "seconds" in last else None,
        "speed": last.get("examples_per_second"),
        "url": _http_url(variant.mlflow_run_url),
        "errors": variant.errors,
    }


def _scores_with(scores: Mapping[str, float], suffix: str) -> View | None:
    """EM, F1, AvNA and NLL of the metrics with this suffix; None if there is no EM."""
    names = ("em", "f1", "avna", "nll")
    values = {name: scores.get(f"dev/{name}_{suffix}") for name in names}
    return None if values["em"] is None else values


def _within(
    scores: Mapping[str, float], variant: VariantResult, split: EvaluationSplit
) -> View | None:
    """The scores without contexts longer than max_context_tokens; None if no context is longer."""
    values, questions = _scores_with(scores, "within"), scores.get("dev/questions_within")
    if values is None or questions == len(split):
        return None
    tokens = variant.config["training"]["max_context_tokens"]
    return {"tokens": tokens, "questions": questions, **values}


def _margin(scores: npt.NDArray[np.floating]) -> float:
    """Half the 95 % confidence interval of the mean, in points, for independent questions."""
    return 196 * float(scores.std()) / math.sqrt(len(scores))


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _http_url(url: str | None) -> str | None:
    return url if url and url.startswith(("http://", "https://")) else None


def _best(table: Sequence[View]) -> dict[str, float | None]:
    """The best value of each compared column; None for each if there is only one variant."""
    if len(table) == 1:
        return dict.fromkeys(["em", "f1", "avna", "nll"])
    best: dict[str, float | None] = {
        column: max(row[column] for row in table) for column in ("em", "f1", "avna")
    }
    best["nll"] = min((row["nll"] for row in table if _finite(row["nll"])), default=None)
    return best


# Learning curves


def _chart(
    scored: Sequence[_ScoredVariant], title: str, y_label: str, metrics: Mapping[str, str]
) -> View | None:
    """The chart of some metrics over the epochs; None if no variant has any of them."""
    lines = [
        line(i, scored_variant.variant.name, series, points)
        for i, scored_variant in enumerate(scored)
        for metric, series in metrics.items()
        if (points := _curve(scored_variant.variant.history, metric))
    ]
    if not lines:
        return None
    return plot(title, "epoch", y_label, lines, whole_x=True)


def _curve(history: Sequence[Mapping[str, float]], metric: str) -> Points:
    return [(row["epoch"], row[metric]) for row in history if _finite(row.get(metric))]


# Examples


def _examples(scored: _ScoredVariant, split: EvaluationSplit) -> View:
    """The most confident correct and wrong predictions, each from distinct contexts."""
    columns = scored.columns
    em, f1 = columns["em"], columns["f1"]
    order = rows_by_confidence(columns)
    correct = [row for row in order if em[row] == 1]
    wrong = [row for row in order if em[row] == 0 and f1[row] == 0]
    return {
        "name": scored.variant.name,
        "correct": [
            example(columns, split, r) for r in first_per_context(correct, split, EXAMPLES)
        ],
        "wrong": [example(columns, split, r) for r in first_per_context(wrong, split, EXAMPLES)],
    }


# Data and settings

DATA_ROWS = [
    ("Articles", "articles"),
    ("Contexts", "contexts"),
    ("Questions", "questions"),
    ("– with an answer", "answerable"),
    ("– without an answer", "impossible"),
    ("– – same-article negatives", "negatives"),
    ("Answers on token boundaries", "exact"),
    ("Answers widened to token boundaries", "widened"),
    ("Answers with a repaired offset or text", "repaired"),
    ("Questions rejected (not trained on)", "dropped"),
    ("Best possible EM", "oracle_em"),
    ("Best possible F1", "oracle_f1"),
    ("Tokens in contexts", "context_tokens"),
    ("Tokens in questions", "question_tokens"),
]
COVERAGE = [
    ("Training data: tokens with a vector", "coverage_train", "tokens_looked_up"),
    ("Training data: distinct tokens with a vector", "coverage_train", "forms_looked_up"),
    ("Other splits: tokens with a vector", "coverage_others", "tokens_looked_up"),
    ("Other splits: distinct tokens with a vector", "coverage_others", "forms_looked_up"),
]


def _data_rows(splits: Mapping[str, Mapping[str, float]]) -> list[tuple[str, list[str]]]:
    return [
        (
            label,
            [
                digits(facts.get(key), 2 if key.startswith("oracle") else 0)
                for facts in splits.values()
            ],
        )
        for label, key in DATA_ROWS
        if any(key in facts for facts in splits.values())
    ]


def _vocabulary(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    sizes = [("Words", "words"), ("Characters", "characters"), ("Distinct tokens", "types")]
    rows = [(label, whole(facts[key])) for label, key in sizes if key in facts]
    return rows + [
        (label, f"{100 * facts[group][share]:.1f} %")
        for label, group, share in COVERAGE
        if share in facts.get(group, {})
    ]


def _settings(variants: Sequence[VariantResult]) -> list[View]:
    """One row per setting with each variant's value; rows with different values are marked."""
    flat = [flatten({**variant.config, **variant.facts}) for variant in variants]
    names = dict.fromkeys(name for values in flat for name in values if name != "name")
    rows = [(name, [plain(values.get(name)) for values in flat]) for name in names]
    return [{"name": n, "values": v, "differs": len(set(v)) > 1} for n, v in rows]


def report_variants(
    out: Path,
    dataset: str,
    trained: Sequence[Path],
    splits: Mapping[Split, Path],
    vocabulary: Path,
) -> dict[str, Any]:
    """Write report.html about trained variants, from the outputs of their stages.

    `splits` are the folders of the dataset's ingested splits.
    """
    data = ReportData(
        dataset=dataset,
        evaluation=splits["dev"],
        splits={name: facts_of(folder) for name, folder in splits.items()},
        vocabulary=facts_of(vocabulary),
    )
    results = [_variant_result(folder, dataset) for folder in trained]
    write_report(out / "report.html", results, data)
    return {}


def _variant_result(folder: Path, dataset: str) -> VariantResult:
    facts = facts_of(folder)
    return VariantResult(
        name=facts["variant"],
        config=json.loads((folder / "config.json").read_text(encoding="utf-8")),
        history=json.loads((folder / "history.json").read_text(encoding="utf-8")),
        predictions=folder / "predictions.parquet",
        facts={name: facts.get(name) for name in ("parameters", "trained_on")},
        mlflow_run_url=facts["run_url"],
        errors=quote(error_report.page_path(dataset, facts["variant"])),
        scores=facts["scores"],
        threshold=facts["threshold"],
        no_threshold_reason=facts["no_threshold"],
    )
