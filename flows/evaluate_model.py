"""Flow `evaluate-model`: score a trained model on labelled questions, such as last month's."""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import pyarrow.parquet as pq
from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from pydantic import Field
from rich.table import Column

from flows.commands.flow_command import flow_command
from flows.commands.terminal import show, table
from flows.common.data_files import find_files
from flows.common.failures import report_user_errors
from flows.common.parameters import DataParameters
from flows.common.splits import ingest_each
from infra.settings import settings
from models.arrays import BoolArray
from models.squad_metrics import QuestionScore, mean_scores
from tasks.datasets.catalog import EVALUATIONS
from tasks.evaluation.evaluate import EvaluationSplit, load_split
from tasks.evaluation.slices import guarded_slices
from tasks.inference.no_answer import NoAnswer
from tasks.inference.score_model import ANSWERS
from tasks.inference.trained_contexts import new_to_models
from tasks.stages import scoring, splitting
from tasks.text.vocabulary import Lexicon
from tasks.tracking import client, registry, runs

ALL = "all"


@flow(name="evaluate-model", description=__doc__)
@report_user_errors
def evaluate_model(
    data: DataParameters = DataParameters(),
    model: Annotated[
        str | None,
        Field(
            min_length=1,
            description="Registered model: models:/<name>@<alias> or models:/<name>/<version>. "
            "Empty: the champion of the dataset.",
        ),
    ] = None,
    no_answer: Annotated[
        NoAnswer,
        Field(
            description="When the model gives no answer. argmax: if it is more probable than every "
            "span; threshold: as the threshold says that validation chose."
        ),
    ] = "argmax",
    expected_no_answer: Annotated[
        float | None,
        Field(
            gt=0,
            lt=1,
            description="With the threshold: the share of unanswerable questions that it is for. "
            "Empty: the one that the training expected.",
        ),
    ] = None,
) -> dict[str, Any]:
    """Evaluate a registered model on a dataset, and return its scores on all questions and slices.

    The questions are those of the dev files, or of all files if there are none.
    """
    uri, files = settings().tracking_uri, find_files(data)
    version = registry.find_version(uri, model or f"models:/bidaf-{files.name}@{registry.CHAMPION}")
    split = splitting(ingest_each(files.dev or files.all, data))
    scored = scoring(version.model_id, split.folder, no_answer, expected_no_answer)
    questions = load_split(split.folder)
    answers = scored.folder / ANSWERS
    scores = questions.score(pq.read_table(answers, columns=["answer"])["answer"].to_pylist())
    new = new_to_models(questions, [scored.folder / "model"])
    if not new.all():
        get_run_logger().warning(
            f"The model was trained on the contexts of {int((~new).sum()):,} of the {len(new):,} "
            "questions. Their scores say little about new texts."
        )
    masks = _slices(questions, new, Lexicon.load(scored.folder / "model"))
    rows = [_row(name, mask, scores) for name, mask in masks.items()]
    title = f"{version.name} version {version.version} on {files.name}"
    create_table_artifact(rows, key="evaluation", description=f"Scores of {title}")
    run_id = runs.parent_run_of(EVALUATIONS)
    mean = mean_scores(scores)
    runs.log_scores(uri, run_id, {"em": mean.em, "f1": mean.f1, "avna": mean.avna})
    runs.tag(uri, run_id, {"data": files.name, "model": version.name, "version": version.version})
    runs.log_artifacts(uri, run_id, [answers])
    runs.finish(uri, run_id, "FINISHED")
    return {
        "title": title,
        "rows": rows,
        "answers": str(answers),
        "run_url": client.run_url(uri, run_id),
    }


def _slices(split: EvaluationSplit, new: BoolArray, lexicon: Lexicon) -> dict[str, BoolArray]:
    """All questions, those about new contexts if there are others too, and those of each slice."""
    slices = {ALL: np.ones(len(split), dtype=np.bool_)}
    if new.any() and not new.all():
        slices["contexts not trained on"] = new
    slices |= guarded_slices(split, lexicon)
    return {name: mask for name, mask in slices.items() if mask.any()}


def _row(name: str, mask: BoolArray, scores: list[QuestionScore]) -> dict[str, str]:
    mean = mean_scores([score for score, is_in in zip(scores, mask, strict=True) if is_in])
    return {
        "questions": name,
        "count": f"{int(mask.sum()):,}",
        "EM": f"{mean.em:.2f}",
        "F1": f"{mean.f1:.2f}",
        "AvNA": f"{mean.avna:.2f}",
    }


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


command = flow_command(evaluate_model, announce, positional="--data.dataset")
