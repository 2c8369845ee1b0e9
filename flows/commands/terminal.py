"""Prints tables and lines in the terminal, or to a file or pipe."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

# Of output that is no terminal: nothing in it is wrapped or cut.
UNLIMITED = 10_000
# Characters that a column which may be folded needs at least.
FOLDED = 10


def table(
    columns: Iterable[str | Column], rows: Iterable[Sequence[str | Text]], **style: Any
) -> Table:
    """A table of plain text, without markup; `style` has further settings of rich's Table."""
    result = Table(*columns, **style)
    for row in rows:
        result.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return result


def open_console(**settings: Any) -> Console:
    """A console that is as wide as the terminal, or as the variable COLUMNS says."""
    console = Console(**settings)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = UNLIMITED
    return console


def show(*parts: Table | Text | str) -> None:
    """Print tables, each between blank lines, and lines of plain text, which are not wrapped."""
    console = open_console()
    for part in parts:
        if isinstance(part, Table):
            console.print("", fitted(part, console), "")
        else:
            console.print(part, soft_wrap=True, highlight=False, markup=False)


def fitted(shown: Table, console: Console) -> Table:
    """The table itself, or one with a line for each of its cells if a word or a number of a column
    would be cut."""
    _, right, _, left = shown.padding
    needed = len(shown.columns) * (left + right + 1) + (1 if shown.show_edge else -1)  # the lines
    for column in shown.columns:
        sizes = [console.measure(cell) for cell in (column.header, *column.cells)]
        shortest, longest = (max(size[i] for size in sizes) for i in range(2))
        column.no_wrap = column.no_wrap or shortest == longest  # others give way first
        needed += min(shortest, FOLDED) if column.overflow == "fold" else shortest
        column.overflow = "fold"  # rich may still make other columns narrower than their words
    return shown if needed <= console.width else _one_cell_a_line(shown)


def _one_cell_a_line(shown: Table) -> Table:
    result = Table(Column(no_wrap=True), Column(overflow="fold"), title=shown.title, box=shown.box)
    result.show_header = False
    titles = [column.header for column in shown.columns]
    for row in zip(*(column.cells for column in shown.columns), strict=True):
        for title, cell in zip(titles, row, strict=True):
            result.add_row(title, cell, end_section=title is titles[-1])
    return result
