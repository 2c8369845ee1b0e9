"""Flow `predict`: answer the questions of files with a trained model."""

from collections.abc import Mapping
from typing import Annotated, Any

from prefect import flow
from pydantic import Field

from flows.commands.flow_command import flow_command
from flows.commands.terminal import show
from flows.common.data import resolve
from flows.common.failures import STATE_HOOKS, report_user_errors
from flows.common.parameters import (
    DataParameters,
    NoAnswerRule,
    NonEmpty,
    ShareWithoutAnswer,
    TableColumns,
)
from flows.common.training import find_model
from tasks.inference.answer_formats import write_answers, write_uncertain
from tasks.inference.score_model import ANSWERS
from tasks.stages import answer_stage
from tasks.training.train_variant import remove_checkpoints


@flow(name="predict", description=__doc__, **STATE_HOOKS)
@report_user_errors
def predict(
    files: Annotated[
        list[NonEmpty],
        Field(
            min_length=1,
            description="Questions with contexts, in the formats of ingestion; answers are not "
            "needed. Files, directories, globs, zip archives, URLs, or known datasets, of which "
            "the dev questions are answered.",
        ),
    ],
    model: Annotated[
        str,
        Field(
            min_length=1,
            description="Registered model: <dataset>@champion, models:/<name>@<alias> or "
            "models:/<name>/<version>. Or a model directory.",
        ),
    ] = "tiny@champion",
    output: Annotated[
        str,
        Field(
            pattern=r"\.(parquet|jsonl|json)$",
            description="File or address (s3://…) to write the answers to: .parquet, .jsonl, or "
            ".json for SQuAD's predictions.",
        ),
    ] = "answers.parquet",
    top: Annotated[
        int, Field(ge=1, le=100, description="Number of likeliest answers to each question.")
    ] = 1,
    uncertain: Annotated[
        int,
        Field(
            ge=0,
            description="Number of questions to write as tasks for Label Studio: those whose "
            "answers have the lowest probabilities.",
        ),
    ] = 0,
    tasks: Annotated[
        str,
        Field(pattern=r"\.json$", description="File or address to write these tasks to: .json."),
    ] = "uncertain.json",
    no_answer: NoAnswerRule = "argmax",
    expected_no_answer: ShareWithoutAnswer = None,
    columns: TableColumns = "",
) -> dict[str, Any]:
    """Answer the questions of files, and return how many there are and where the answers are.

    A run that was killed continues where it was. Equal runs are not computed again.
    """
    folder, name, version = find_model(model)
    answered = answer_stage(
        [file for spec in files for file in resolve(spec, "dev", DataParameters().seed)],
        *(folder, name, version, top, no_answer, expected_no_answer, columns),
    )
    remove_checkpoints(answered.folder)
    write_answers(answered.folder / ANSWERS, output)
    if uncertain:
        write_uncertain(answered.folder / ANSWERS, uncertain, tasks)
    return {
        **answered.facts,
        "model": f"{name} version {version}" if version else name,
        "output": output,
        "tasks": tasks if uncertain else "",
    }


def announce(summary: Mapping[str, Any]) -> None:
    """Print what was answered, by which model, and where the answers are."""
    show(
        f"Answered {summary['questions']:,} questions by {summary['model']}"
        + (f", {summary['errors']:,} with errors" if summary["errors"] else ""),
        f"Answers    {summary['output']}",
        *([f"Tasks      {summary['tasks']}"] if summary["tasks"] else []),
    )


command = flow_command(predict, announce, positional="files")
