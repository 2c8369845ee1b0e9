"""The error report on one run: its wrong answers, their confidence, and its attention."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from infra.artifacts.manifest import facts_of
from infra.settings import settings
from models.configs.variant import VariantConfig, Window
from tasks.embeddings.formats.select import packaged_words
from tasks.evaluation.evaluate import EvaluationSplit, load_split
from tasks.evaluation.predictions import Columns, mean, read_predictions
from tasks.evaluation.slices import scores_outside_glove, slice_table, slicings
from tasks.reports.attention_heatmaps import CELL, Heatmap, heatmaps
from tasks.reports.examples import (
    example,
    first_per_context,
    gold_spans,
    named_questions,
    rows_by_confidence,
)
from tasks.reports.html import render
from tasks.text.vocabulary import Lexicon
from tasks.tracking import metric_logger, runs

if TYPE_CHECKING:
    from tasks.inference.predictor import Predictor

# The predictor is imported locally, because it loads torch, which takes seconds.

View = dict[str, Any]

ERRORS_PER_KIND = 10
"""Maximum number of errors shown for each kind."""
DRAWN = 3
"""Maximum number of errors whose attention is drawn if no examples are named."""

MAX_DRAWN_TOKENS = 1_000
"""Maximum context tokens read at once in an automatically chosen example: self-attention has a
weight for each pair of tokens."""

CORRECT = "correct"
KINDS = {
    "spurious": "Predicted an answer, but the question is unanswerable",
    "missed": "Predicted no answer, but the question is answerable",
    "wrong": "Wrong span, no word in common with an annotated answer",
    "partial": "Wrong span, some words in common with an annotated answer",
}


def page_path(dataset: str, variant: str) -> str:
    """Path of a variant's page, relative to the report on its dataset."""
    return f"{dataset}/{variant}.html"


@dataclass(frozen=True)
class ReportedRun:
    """A trained variant: its names, and the folder of its stage `train`."""

    dataset: str
    variant: str
    folder: Path
    url: str | None = None


def write_error_report(
    out_file: Path,
    run: ReportedRun,
    evaluation: Path,
    examples: Sequence[str] = (),
) -> None:
    """Write the page on a run's answers to the questions of an ingested split.

    Attention is drawn for the questions that `examples` name, by id or by words that they contain.
    Without examples it is drawn for the most confident errors in contexts of which at most
    `MAX_DRAWN_TOKENS` tokens are read at once.

    Raises:
        UserError: the answers do not belong to the split, or an example matches no question.
    """
    split = load_split(evaluation)
    columns = read_predictions(run.folder / "predictions.parquet", split, run.variant)
    kinds = kinds_of(columns, split)
    wrong = [row for row in rows_by_confidence(columns) if kinds[row] != CORRECT]
    window = _window_of(run.folder / "model")
    drawn = named_questions(split, examples) or _drawable_errors(wrong, split, window)
    drawn = [row for row in drawn if split.has_tokens[row]]
    known, lower_case = _words_with_vectors(run.folder / "model")
    all_questions = np.ones(len(split), bool)
    view = {
        "run": run,
        "created": datetime.now().astimezone(),
        "questions": len(split),
        "em": mean(columns["em"], all_questions),
        "f1": mean(columns["f1"], all_questions),
        "error_count": len(wrong),
        "kinds": [_kind(kind, columns, split, kinds, wrong) for kind in KINDS if kind in kinds],
        "slices": [
            slice_table(slicing, [columns])
            for slicing in slicings(split, known, "the run's word vectors", lower_case)
        ],
        "has_vectors": bool(known),
        "drawn": _drawn(run, columns, split, drawn),
        "selected_up_to": None if examples else MAX_DRAWN_TOKENS,
        "cell": CELL,
    }
    out_file.write_text(render("errors.html.j2", view), encoding="utf-8")


def kinds_of(columns: Columns, split: EvaluationSplit) -> npt.NDArray[np.str_]:
    """(n,) the kind of error of each answer, a key of `KINDS`, or `CORRECT`."""
    answerable = np.array([bool(golds) for golds in split.golds])
    conditions = {
        CORRECT: columns["em"] == 1,
        "spurious": ~answerable,
        "missed": columns["span_start_char"] < 0,
        "partial": columns["f1"] > 0,
    }
    return np.select(list(conditions.values()), list(conditions), "wrong")


def _kind(
    kind: str,
    columns: Columns,
    split: EvaluationSplit,
    kinds: npt.NDArray[np.str_],
    wrong: Sequence[int],
) -> View:
    rows = [row for row in wrong if kinds[row] == kind]
    return {
        "title": KINDS[kind],
        "count": len(rows),
        "share": 100 * len(rows) / len(split),
        "confidence": 100 * float(np.median(np.exp(np.minimum(columns["score"][rows], 0)))),
        "examples": [
            example(columns, split, row) for row in first_per_context(rows, split, ERRORS_PER_KIND)
        ],
    }


def _window_of(model: Path) -> Window | None:
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    return VariantConfig.from_dict(config["variant"]).training.window


def _drawable_errors(
    wrong: Sequence[int], split: EvaluationSplit, window: Window | None
) -> list[int]:
    tokens = split.context_lengths[split.context_of]
    if window is not None:
        tokens = np.minimum(tokens, window.tokens)
    drawable = split.has_tokens & (tokens <= MAX_DRAWN_TOKENS)
    return first_per_context((row for row in wrong if drawable[row]), split, DRAWN)


def _words_with_vectors(model: Path) -> tuple[frozenset[str], bool]:
    """The words of a model that have vectors, and whether the model lower-cases words."""
    table = pq.read_table(model / "words.parquet", columns=["word", "in_vectors"])
    words: Any = table["word"].filter(table["in_vectors"]).to_pylist()
    return frozenset(words), Lexicon.load(model).lower_case


def _drawn(
    run: ReportedRun, columns: Columns, split: EvaluationSplit, rows: Sequence[int]
) -> list[View]:
    """The examples, each with its heatmaps."""
    if not rows:
        return []
    from tasks.inference.predictor import Predictor

    predictor = Predictor.load(run.folder / "model")
    return [
        {**example(columns, split, row), "maps": _maps(predictor, columns, split, row)}
        for row in rows
    ]


def _maps(
    predictor: "Predictor", columns: Columns, split: EvaluationSplit, row: int
) -> list[Heatmap]:
    question, context = split.questions[row], split.context(row)
    golds = gold_spans(context, split.golds[row])
    predicted = int(columns["span_start_char"][row]), int(columns["span_end_char"][row])
    marked = [predicted, *golds] if predicted[0] >= 0 else golds
    around = marked[0][0] if marked else 0
    attention = predictor.attention(question, context, around)
    return heatmaps(question, context, attention, golds, predicted)


def report_errors(
    out: Path,
    dataset: str,
    trained: Path,
    dev: Path,
    examples: Sequence[str] = (),
) -> dict[str, Any]:
    """Write errors.html about a trained variant, and log it to its MLflow run.

    Also logs metrics for the questions with words outside GloVe: their number, EM and F1.
    """
    facts = facts_of(trained)
    run = ReportedRun(dataset, facts["variant"], trained, facts["run_url"])
    write_error_report(out / "errors.html", run, dev, examples)
    uri, run_id = settings().tracking_uri, facts["run_id"]
    runs.log_artifacts(uri, run_id, [out / "errors.html"])
    outside = _scores_outside_glove(trained, dev, facts["variant"])
    metric_logger.EpochLogger(uri, run_id).epoch(_step_of_epoch(trained, facts["epoch"]), outside)
    return {"variant": facts["variant"], "scores": outside}


def _scores_outside_glove(trained: Path, dev: Path, variant: str) -> dict[str, float]:
    known, split = packaged_words(), load_split(dev)
    if not known:  # the GloVe package is not installed
        return {}
    return scores_outside_glove(
        split, read_predictions(trained / "predictions.parquet", split, variant), known
    )


def _step_of_epoch(trained: Path, epoch: int) -> int:
    """The optimisation step at which an epoch of a training ended."""
    history = json.loads((trained / "history.json").read_text(encoding="utf-8"))
    return next(int(entry["step"]) for entry in history if entry["epoch"] == epoch)
