"""A self-contained HTML page that shows evaluations of sets of word vectors side by side."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tasks.embeddings.evaluation.evaluate import EVALUATION
from tasks.reports.html import render

SIZE = 1000
"""Width and height of a map, in drawing units."""


def write_embeddings_report(
    out: Path,
    names: Sequence[str],
    folders: Sequence[Path],
    left_out: Sequence[str] = (),
) -> dict[str, Any]:
    """Write embeddings.html about one or more sets, from the results of `evaluate_vectors`.

    `left_out` names the published tests whose files are missing.
    """
    evaluations = [
        {"name": name} | json.loads((folder / EVALUATION).read_text(encoding="utf-8"))
        for name, folder in zip(names, folders, strict=True)
    ]
    page = render("embeddings.html.j2", view(evaluations) | {"left_out": left_out})
    (out / "embeddings.html").write_text(page, encoding="utf-8")
    return {}


def view(evaluations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The data for the template: table rows with one cell per set."""
    return {
        "sets": evaluations,
        "created": datetime.now().astimezone(),
        "similarity": _rows(evaluations, "similarity"),
        "analogies": _rows(evaluations, "analogies"),
        "coverage": _rows(evaluations, "coverage"),
        "bias": _rows(evaluations, "bias"),
        "neighbours": _rows(evaluations, "neighbours"),
        "queries": _rows(evaluations, "asked"),
        "size": SIZE,
        "maps": Markup(_script_json({e["name"]: e["map"] for e in evaluations})),
    }


def _rows(evaluations: Sequence[Mapping[str, Any]], section: str) -> list[tuple[str, list[Any]]]:
    names = dict.fromkeys(name for evaluation in evaluations for name in evaluation[section])
    return [(name, [evaluation[section].get(name) for evaluation in evaluations]) for name in names]


def _script_json(value: Any) -> str:
    """JSON that is safe inside a script element, whatever words it contains."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
