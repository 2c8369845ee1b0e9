"""Convert a file of questions to another format."""

from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated

from cyclopts import Parameter

from flows.commands.terminal import show
from infra.errors import UserError
from infra.files import user_path
from infra.masking import mask_secrets
from tasks.data.convert import OutputFormat, convert_file
from tasks.data.importers.table import parse_columns
from tasks.datasets.fetch import fetch
from tasks.datasets.paths import find_remote_files, is_uri
from tasks.inference.answer_formats import write_output

BLOCK_BYTES = 1 << 20


def convert(
    file: Annotated[
        str,
        Parameter(
            help="Questions, in any format that `check` reads: a file or an address (https://…, "
            "s3://…)."
        ),
    ],
    out: Annotated[str, Parameter(help="File or address to write.")],
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
    if (chosen := format or by_name.get(PurePosixPath(out).suffix)) is None:
        raise UserError(f"{out} ends in neither .json nor .jsonl. Rename it, or set --format.")
    with TemporaryDirectory() as folder:
        converted = Path(folder) / "converted"
        source = _local_file(file, Path(folder))
        questions, invalid = convert_file(source, converted, chosen, columns)
        with converted.open("rb") as stream:
            write_output(out, iter(partial(stream.read, BLOCK_BYTES), b""))
    left_out = f"; {invalid:,} invalid ones are left out" if invalid else ""
    show(f"Wrote {questions:,} questions to {mask_secrets(out)} as {chosen}{left_out}")


def _local_file(name: str, folder: Path) -> Path:
    """The file at a path, or a copy in `folder` of the one at an address."""
    if not is_uri(name):
        return user_path(name)
    files = find_remote_files(name)
    if len(files) > 1:
        raise UserError(f"{mask_secrets(name)} has {len(files)} files. Name one of them.")
    fetch(folder, files[0])
    return folder / files[0].name
