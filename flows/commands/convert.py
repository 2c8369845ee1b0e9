"""Convert a file of questions to another format."""

from typing import Annotated

from cyclopts import Parameter

from flows.commands.terminal import show
from infra.errors import UserError
from infra.files import user_path
from tasks.data.convert import OutputFormat, convert_file
from tasks.data.importers.table import parse_columns


def convert(
    file: Annotated[str, Parameter(help="File of questions, in any format that `check` reads.")],
    out: Annotated[str, Parameter(help="File to write.")],
    /,
    *,
    format: Annotated[
        OutputFormat | None,
        Parameter(
            help="squad (SQuAD JSON), jsonl (JSON Lines) or label-studio (tasks with annotations). "
            "By default, by the name of OUT: .json or .jsonl."
        ),
    ] = None,
    columns: Annotated[
        str,
        Parameter(
            help="Columns of a table: question=q,context=text,answer=a.",
            validator=lambda _, columns: parse_columns(columns),
        ),
    ] = "",
) -> None:
    """Write the questions of a file as SQuAD JSON, JSON Lines or tasks for Label Studio.

    Raises:
        UserError: the file can't be read, or OUT can't be written, or has another extension and
            there is no format.
    """
    by_name: dict[str, OutputFormat] = {".json": "squad", ".jsonl": "jsonl"}
    target = user_path(out)
    if (chosen := format or by_name.get(target.suffix)) is None:
        raise UserError(f"{out} ends in neither .json nor .jsonl. Rename it, or set --format.")
    try:
        questions, invalid = convert_file(user_path(file), target, chosen, columns)
    except OSError as error:  # one of reading names the file already
        raise UserError(f"{out} can't be written: {error.strerror}. Name another file.") from error
    left_out = f"; {invalid:,} invalid ones are left out" if invalid else ""
    show(f"Wrote {questions:,} questions to {out} as {chosen}{left_out}")
