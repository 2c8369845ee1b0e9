"""The report that compares trained variants, as one self-contained HTML page."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from infra.artifacts.manifest import facts_of
from models.arrays import FloatArray
from models.squad_metrics import mean_scores
from tasks.embeddings.formats.select import packaged_words
from tasks.evaluation.evaluate import EvaluationSplit, load_split, mean
from tasks.evaluation.floor import floors
from tasks.evaluation.slices import slice_tables
from tasks.reports.calibration_section import calibration_view
from tasks.reports.charts import MARKERS, line, plot
from tasks.reports.examples import confident_examples
from tasks.reports.html import View, plain, write_page
from tasks.reports.variant_result import VariantResult, load_variant
from tasks.tracking.runs import Split, flatten

# Number of correct and of wrong predictions shown for each variant.
EXAMPLES = 5
CHARTS = [
    ("Loss", "NLL, nats", {"train/nll": "training", "dev/nll": "evaluation"}),
    ("F1", "F1, %", {"dev/f1": "evaluation"}),
    ("Exact match", "EM, %", {"dev/em": "evaluation"}),
]


def report_variants(
    out: Path,
    dataset: str,
    trained: Sequence[Path],
    splits: Mapping[Split, Path],
    vocabulary: Path,
) -> dict[str, Any]:
    """Write report.html about trained variants, from the outputs of their stages.

    It shows scores, learning curves, slices, examples, data and settings. `splits` are the folders
    of the dataset's ingested splits.

    Raises:
        UserError: a variant's predictions do not match the questions of the split "dev".
    """
    split = load_split(splits["dev"])
    variants = [load_variant(folder, split) for folder in trained]
    table = [_summary(variant, split) for variant in variants]
    write_page(
        out / "report.html",
        "report.html.j2",
        dataset=dataset,
        questions=len(split),
        contexts=len(split.contexts),
        v2=split.v2,
        by_units=sum(split.by_units),
        variants=table,
        floors=[
            {"name": name, "scores": mean_scores(scores)} for name, scores in floors(split).items()
        ],
        best_variant=max(table, key=lambda row: row["f1"]),
        best={
            **{column: max(row[column] for row in table) for column in ("em", "f1", "avna")},
            "nll": min((row["nll"] for row in table if math.isfinite(row["nll"])), default=None),
        },
        markers=[list(MARKERS.values())[i % len(MARKERS)] for i in range(len(variants))],
        charts=[chart for chart in (_chart(variants, *spec) for spec in CHARTS) if chart],
        mixes=_mixes(variants),
        calibration=calibration_view(variants, split),
        slices=slice_tables(
            split, [variant.answers for variant in variants], packaged_words(), "GloVe 6B"
        ),
        examples=[_examples(variant, split) for variant in variants],
        splits={name: facts_of(folder) for name, folder in splits.items()},
        vocabulary=facts_of(vocabulary),
        settings=_settings(variants),
    )
    return {}


# Scores of whole variants


def _summary(variant: VariantResult, split: EvaluationSplit) -> View:
    """The variant's table row, with None or NaN for unknown values."""
    answers, facts, url = variant.answers, variant.facts, variant.facts["run_url"]
    correct_avna = (answers["prediction"] != "") == split.answerable
    last = variant.history[-1] if variant.history else {}
    kept = {**last, **facts["scores"]}
    return {
        "name": variant.name,
        "em": mean(answers["em"]),
        "em_margin": _margin(answers["em"]),
        "f1": mean(answers["f1"]),
        "f1_margin": _margin(answers["f1"]),
        "avna": 100 * float(correct_avna.mean()),
        "nll": kept.get("dev/nll", math.nan),
        "within": _within(kept, variant, split),
        "parameters": facts["parameters"],
        "trained_on": facts["trained_on"],
        "leakage": facts.get("data_leakage"),
        "epochs": len(variant.history),
        "minutes": last["seconds"] / 60 if "seconds" in last else None,
        "speed": last.get("examples_per_second"),
        "url": url if url and url.startswith(("http://", "https://")) else None,
        "errors": quote(f"{variant.name}.html"),
    }


def _within(
    scores: Mapping[str, float], variant: VariantResult, split: EvaluationSplit
) -> View | None:
    """The scores without contexts longer than max_context_tokens; None if no context is longer."""
    questions = scores.get("dev/questions_within")
    if questions is None or questions == len(split):
        return None
    return {
        "tokens": variant.config["training"]["max_context_tokens"],
        "questions": questions,
        **{name: scores.get(f"dev/{name}_within") for name in ("em", "f1", "avna", "nll")},
    }


def _margin(scores: FloatArray) -> float:
    """Half the 95 % confidence interval of the mean, in points, for independent questions."""
    return 196 * float(scores.std()) / math.sqrt(len(scores))


# Contextual vectors


def _mixes(variants: Sequence[VariantResult]) -> View:
    """One row per variant and place of contextual vectors, with the shares of the layers."""
    rows = [
        {"variant": number, "name": variant.name, "place": place, **mix}
        for number, variant in enumerate(variants)
        for place, mix in variant.facts["mixes"].items()
    ]
    return {"rows": rows, "layers": max((len(row["shares"]) for row in rows), default=0)}


# Learning curves


def _chart(
    variants: Sequence[VariantResult], title: str, y_label: str, metrics: Mapping[str, str]
) -> View | None:
    """The chart of some metrics over the epochs; None if no variant has any of them."""
    lines = [
        line(i, variant.name, series, points)
        for i, variant in enumerate(variants)
        for metric, series in metrics.items()
        if (
            points := [
                (row["epoch"], row[metric])
                for row in variant.history
                if math.isfinite(row.get(metric, math.nan))
            ]
        )
    ]
    return plot(title, "epoch", y_label, lines, whole_x=True) if lines else None


# Examples


def _examples(variant: VariantResult, split: EvaluationSplit) -> View:
    """The most confident correct and wrong predictions, each from distinct contexts."""
    answers = variant.answers
    correct, wrong = answers["em"] == 1, (answers["em"] == 0) & (answers["f1"] == 0)
    return {
        "name": variant.name,
        "correct": confident_examples(answers, split, correct, EXAMPLES),
        "wrong": confident_examples(answers, split, wrong, EXAMPLES),
    }


# Settings


def _settings(variants: Sequence[VariantResult]) -> list[tuple[str, list[str]]]:
    """One row per setting with each variant's value."""
    flat = [
        flatten(variant.config)
        | {name: variant.facts[name] for name in ("parameters", "trained_on")}
        for variant in variants
    ]
    names = dict.fromkeys(name for values in flat for name in values if name != "name")
    return [(name, [plain(values.get(name)) for values in flat]) for name in names]
