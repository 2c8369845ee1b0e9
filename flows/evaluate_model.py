"""Flow `evaluate-model`: score a trained model on labelled questions, such as last month's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow.parquet as pq
from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from pydantic import Field
from rich.table import Column

from flows.commands.flow_command import flow_command
from flows.commands.terminal import show, table
from flows.common.data import find_evaluation_files, ingest_each, name_of_data
from flows.common.failures import STATE_HOOKS, report_user_errors
from flows.common.parameters import (
    DataParameters,
    MaxRejected,
    NoAnswerRule,
    Repair,
    ShareWithoutAnswer,
    TableColumns,
)
from infra.artifacts.manifest import content_digest
from models.arrays import BoolArray
from tasks.datasets.catalog import EVALUATIONS
from tasks.evaluation.evaluate import Columns, EvaluationSplit, load_split, mean
from tasks.evaluation.slices import guarded_slices
from tasks.inference.score_model import ANSWERS, warn_of_unread
from tasks.inference.trained_contexts import new_to_models, trained_contexts
from tasks.stages import score_stage, split_stage
from tasks.text.vocabulary import Lexicon
from tasks.tracking import registry, runs
from tasks.tracking.client import run_url

TITLES = {"em": "EM", "f1": "F1", "avna": "AvNA"}


@flow(name="evaluate-model", description=__doc__, **STATE_HOOKS)
@report_user_errors
def evaluate_model(
    dataset: Annotated[
        str,
        Field(
            min_length=1,
            description="Labelled questions: a known dataset, or a file, folder, glob or URL. Of "
            "train and dev files, only the dev files are evaluated.",
        ),
    ] = "tiny",
    model: Annotated[
        str | None,
        Field(
            min_length=1,
            description="Registered model: models:/<name>@<alias> or models:/<name>/<version>. "
            "Empty: the champion of the dataset.",
        ),
    ] = None,
    no_answer: NoAnswerRule = "argmax",
    expected_no_answer: ShareWithoutAnswer = None,
    repair: Repair = False,
    max_rejected: MaxRejected = 0.05,
    columns: TableColumns = "",
) -> dict[str, Any]:
    """Evaluate a registered model on a dataset, and return its scores on all questions and slices.

    The scores are logged to MLflow, in an experiment of their own.
    """
    data = DataParameters(
        dataset=dataset, repair=repair, max_rejected=max_rejected, columns=columns
    )
    name = name_of_data(data)
    version = registry.chosen_version(model, name)
    split = split_stage(ingest_each(find_evaluation_files(data), data))
    scored = score_stage(version.model_id, split.folder, no_answer, expected_no_answer)
    warn_of_unread(registry.title(version), scored.facts)
    questions = load_split(split.folder)
    answers = scored.folder / ANSWERS
    written = pq.read_table(answers, columns=[*TITLES])
    scores: Columns = {name: written[name].to_numpy() for name in written.column_names}
    masks = _slices(questions, scored.folder / "model")
    rows = [
        {"questions": name, "count": f"{int(mask.sum()):,}"}
        | {title: f"{mean(scores[score][mask]):.2f}" for score, title in TITLES.items()}
        for name, mask in masks.items()
    ]
    title = f"{version.name} version {version.version} on {name}"
    create_table_artifact(rows, key="evaluation", description=f"Scores of {title}")
    tags = {
        "dataset": name,
        "dataset.digest": content_digest(split.folder),
        "questions": str(len(questions)),
        "model": version.name,
        "version": version.version,
        "no_answer": no_answer,
        "expected_no_answer": str(expected_no_answer or "as in training"),
    }
    run_id = runs.parent_run_of(EVALUATIONS)
    runs.tag(run_id, tags)
    runs.log_scores(run_id, {name: mean(column) for name, column in scores.items()})
    runs.log_artifacts(run_id, [answers])
    runs.finish(run_id, "FINISHED")
    return {"title": title, "rows": rows, "answers": str(answers), "run_url": run_url(run_id)}


def _slices(split: EvaluationSplit, model: Path) -> dict[str, BoolArray]:
    """All questions, those about new contexts if there are others too, and those of each slice."""
    slices = {"all": np.ones(len(split), dtype=np.bool_)}
    new = new_to_models(split, [trained_contexts(model)])
    if not new.all():
        get_run_logger().warning(
            f"The model was trained on the contexts of {int((~new).sum()):,} of the {len(new):,} "
            "questions. Their scores say little about new texts."
        )
        slices["contexts not trained on"] = new
    slices |= guarded_slices(split, Lexicon.load(model))
    return {name: mask for name, mask in slices.items() if mask.any()}


def announce(summary: Mapping[str, Any]) -> None:
    """Print the scores, and where the answers are."""
    first, *others = summary["rows"][0]
    columns = [Column(first), *(Column(name, justify="right") for name in others)]
    rows = [list(row.values()) for row in summary["rows"]]
    show(
        table(columns, rows, title=summary["title"]),
        f"Answers    {summary['answers']}",
        f"MLflow     {summary['run_url']}",
    )


command = flow_command(evaluate_model, announce, positional="dataset")
