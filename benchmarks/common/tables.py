"""Results as Markdown tables and as bar charts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """Markdown table of rows that have the same columns."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def bars(axes: Any, title: str, series: Mapping[str, Mapping[str, float | None]]) -> None:
    """Draw a bar for each value, in one colour per series. A missing value has no bar."""
    labels = list(dict.fromkeys(label for values in series.values() for label in values))
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        heights = [values.get(label) or 0.0 for label in labels]
        positions = np.arange(len(labels)) + (number - (len(series) - 1) / 2) * width
        axes.bar(positions, heights, width, label=name)
    axes.set_title(title)
    axes.set_xticks(range(len(labels)), labels, rotation=30, ha="right", fontsize="small")
    axes.grid(axis="y", alpha=0.3)
