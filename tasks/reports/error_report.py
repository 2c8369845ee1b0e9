"""The error report on one run: its wrong answers, their confidence, and its attention."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from models.arrays import BoolArray
from models.configs.variant import VariantConfig, Window
from tasks.embeddings.formats.select import packaged_words
from tasks.evaluation.evaluate import Columns, EvaluationSplit, load_split, mean
from tasks.evaluation.slices import scores_outside_glove, slice_tables
from tasks.reports.attention_heatmaps import Heatmap, heatmaps
from tasks.reports.examples import (
    confident_examples,
    example,
    first_per_context,
    gold_spans,
    predicted_span,
    rows_by_confidence,
)
from tasks.reports.html import View, write_page
from tasks.reports.variant_result import VariantResult, load_variant
from tasks.text.vocabulary import Lexicon
from tasks.tracking import runs

if TYPE_CHECKING:
    from tasks.inference.predictor import Predictor

# The predictor is imported locally, because it loads torch, which takes seconds.

# Maximum number of errors shown for each kind.
ERRORS_PER_KIND = 10
# Maximum number of errors whose attention is drawn.
DRAWN = 3

# Maximum context tokens read at once in an example whose attention is drawn: self-attention has a
# weight for each pair of tokens.
MAX_DRAWN_TOKENS = 1_000

CORRECT = "correct"
KINDS = {
    "spurious": "Predicted an answer, but the question is unanswerable",
    "missed": "Predicted no answer, but the question is answerable",
    "wrong": "Wrong span, no word in common with an annotated answer",
    "partial": "Wrong span, some words in common with an annotated answer",
}


def write_error_report(
    out_file: Path,
    dataset: str,
    run: VariantResult,
    split: EvaluationSplit,
) -> None:
    """Write the page on a run's answers to the questions of a split.

    "No answer" is given where it is more probable than every span, whatever the threshold.

    Attention is drawn for the most confident errors in contexts of which at most
    `MAX_DRAWN_TOKENS` tokens are read at once.
    """
    columns = run.answers
    kinds = kinds_of(columns, split)
    wrong = rows_by_confidence(columns["score"], kinds != CORRECT)
    window = VariantConfig.from_dict(run.config).training.window
    drawn = _drawable_errors(wrong, split, window)
    known, lower_case = _words_with_vectors(run.folder / "model")
    write_page(
        out_file,
        "errors.html.j2",
        dataset=dataset,
        variant=run.name,
        url=run.facts["run_url"],
        questions=len(split),
        em=mean(columns["em"]),
        f1=mean(columns["f1"]),
        may_give_no_answer=split.v2,
        at_threshold=_scores_at_threshold(run),
        error_count=len(wrong),
        kinds=[_kind(kind, kinds == kind, columns, split) for kind in KINDS if kind in kinds],
        slices=slice_tables(split, [columns], known, "the run's word vectors", lower_case),
        has_vectors=bool(known),
        drawn=_drawn(run, split, drawn),
        selected_up_to=MAX_DRAWN_TOKENS,
    )


def _scores_at_threshold(run: VariantResult) -> View | None:
    """Dev scores at the no-answer threshold that validation chose; None if it chose none."""
    if run.facts.get("threshold") is None:
        return None
    return {name: run.facts["scores"][f"dev/{name}_at_threshold"] for name in ("em", "f1")}


def kinds_of(columns: Columns, split: EvaluationSplit) -> npt.NDArray[np.str_]:
    """(n,) the kind of error of each answer, a key of `KINDS`, or `CORRECT`."""
    conditions = {
        CORRECT: columns["em"] == 1,
        "spurious": ~split.answerable,
        "missed": columns["span_start_char"] < 0,
        "partial": columns["f1"] > 0,
    }
    return np.select(list(conditions.values()), list(conditions), "wrong")


def _kind(kind: str, mask: BoolArray, columns: Columns, split: EvaluationSplit) -> View:
    return {
        "title": KINDS[kind],
        "count": int(mask.sum()),
        "share": 100 * int(mask.sum()) / len(split),
        "confidence": 100 * float(np.median(np.exp(np.minimum(columns["score"][mask], 0)))),
        "examples": confident_examples(columns, split, mask, ERRORS_PER_KIND),
    }


def _drawable_errors(
    wrong: Sequence[int], split: EvaluationSplit, window: Window | None
) -> list[int]:
    lengths = split.context_lengths[split.context_of]
    tokens = np.minimum(lengths, window.tokens) if window else lengths
    drawable = split.has_tokens & (tokens <= MAX_DRAWN_TOKENS)
    return first_per_context((row for row in wrong if drawable[row]), split, DRAWN)


def _words_with_vectors(model: Path) -> tuple[frozenset[str], bool]:
    """The words of a model that have vectors, and whether the model lower-cases words."""
    words: Any = pq.read_table(
        model / "words.parquet", columns=["word"], filters=[("in_vectors", "==", True)]
    )
    return frozenset(words["word"].to_pylist()), Lexicon.load(model).lower_case


def _drawn(run: VariantResult, split: EvaluationSplit, rows: Sequence[int]) -> list[View]:
    if not rows:
        return []
    from tasks.inference.predictor import Predictor

    predictor = Predictor.load(run.folder / "model")
    return [
        {**example(run.answers, split, row), "maps": _maps(predictor, run.answers, split, row)}
        for row in rows
    ]


def _maps(
    predictor: "Predictor", columns: Columns, split: EvaluationSplit, row: int
) -> list[Heatmap]:
    question, context = split.questions[row], split.context(row)
    golds = gold_spans(context, split.golds[row])
    predicted = predicted_span(columns, row)
    around = next((start for start, _ in [predicted, *golds] if start >= 0), 0)
    attention = predictor.attention(question, context, around)
    return heatmaps(question, context, attention, golds, predicted)


def report_errors(
    out: Path,
    dataset: str,
    trained: Path,
    dev: Path,
) -> dict[str, Any]:
    """Write errors.html about a trained variant, and log it to its MLflow run if a user has not
    deleted that.

    Also logs metrics for the questions with words outside GloVe: their number, EM and F1.

    Raises:
        UserError: the answers do not belong to the split.
    """
    split = load_split(dev)
    run = load_variant(trained, split)
    write_error_report(out / "errors.html", dataset, run, split)
    run_id = run.facts["run_id"]
    known = packaged_words()  # empty if the GloVe package is not installed
    outside = scores_outside_glove(split, run.answers, known) if known else {}
    if runs.is_kept(run_id):
        kept = next(entry for entry in run.history if entry["epoch"] == run.facts["epoch"])
        runs.log_artifacts(run_id, [out / "errors.html"])
        runs.log_scores(run_id, outside, step=int(kept["step"]))
    return {"variant": run.name, "scores": outside}
