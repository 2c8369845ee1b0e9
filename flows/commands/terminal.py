"""Prints tables and lines in the terminal."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text


def table(
    columns: Iterable[str | Column], rows: Iterable[Sequence[str | Text]], **style: Any
) -> Table:
    """A table of plain text, without markup; `style` has further settings of rich's Table."""
    result = Table(*columns, **style)
    for row in rows:
        result.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return result


def show(*parts: Table | Text | str) -> None:
    """Print tables, each between blank lines, and lines of plain text, which are not wrapped."""
    console = Console()
    for part in parts:
        if isinstance(part, Table):
            console.print("", part, "")
        else:
            console.print(part, soft_wrap=True, highlight=False, markup=False)
