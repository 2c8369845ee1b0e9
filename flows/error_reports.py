"""The error report of each trained variant, and the examples that it draws."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from flows.ingest import Splits
from tasks.evaluation import load_split
from tasks.examples import named_questions, rows_named
from tasks.stages import Output
from tasks.steps import reporting_errors

Examples = Annotated[
    list[Annotated[str, Field(pattern=r"\S")]],
    Field(
        description="Dev questions, by their id or by words that they hold, whose attention the "
        "error reports draw; if left empty, the surest mistakes. On the command line words with a "
        'comma or a quotation mark take a JSON list, ["Who, when?"].'
    ),
]


def require_examples(splits: Splits, examples: Sequence[str]) -> None:
    """Refuse, before anything is trained, examples that are no dev questions.

    Raises:
        UserError: one of them is none.
    """
    if examples:
        named_questions(load_split(splits.dev.folder), examples)


def examples_of_each(splits: Sequence[Splits], examples: Sequence[str]) -> list[list[str]]:
    """The examples that are dev questions of each of some datasets.

    Raises:
        UserError: one of them is no question of any.
    """
    folders = [each.dev.folder for each in splits]
    held: dict[Path, list[str]] = {folder: [] for folder in folders}
    for folder in held if examples else ():
        split = load_split(folder)
        held[folder] = [name for name in examples if rows_named(split, name)]
    for name in examples:
        if not any(name in names for names in held.values()):
            named_questions(load_split(folders[0]), [name])
    return [held[folder] for folder in folders]


def error_report(splits: Splits, trained: Output, examples: Sequence[str]) -> Output:
    """The error report on a variant, which its MLflow run has a copy of."""
    return reporting_errors(splits.name, trained.folder, splits.dev.folder, examples)
