"""Results as Markdown tables."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.machine import machine, today
from infra.atomic_files import write_atomically
from tasks.evaluation.bootstrap import Gain


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """Markdown table of rows that have the same columns."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def format_gain(gain: Gain | None) -> str:
    """A gain with its interval, starred if the interval excludes zero; "reference" for None."""
    if gain is None:
        return "reference"
    return gain.text + (" *" if gain.is_certain else "")


def write_table(
    out: Path, name: str, program: str, rows: Sequence[Mapping[str, str]], **facts: Any
) -> None:
    """Write rows that `program` measured as a Markdown file, and with their conditions as a JSON
    file, and print them."""
    result = {
        "command": "python -m " + " ".join([program, *sys.argv[1:]]),
        "date": today(),
        "machine": machine(),
        **facts,
        "rows": list(rows),
    }
    write_atomically(out / f"{name}.json", json.dumps(result, indent=1) + "\n")
    write_atomically(out / f"{name}.md", markdown(rows))
    print(markdown(rows), flush=True)
