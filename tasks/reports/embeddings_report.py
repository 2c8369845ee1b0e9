"""A self-contained HTML page that shows evaluations of sets of word vectors side by side."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.embeddings.evaluation.evaluate import EVALUATION
from tasks.reports.html import write_page


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
    sections = ("similarity", "analogies", "coverage", "bias", "neighbours", "asked")
    write_page(
        out / "embeddings.html",
        "embeddings.html.j2",
        sets=evaluations,
        left_out=left_out,
        **{section: _rows(evaluations, section) for section in sections},
    )
    return {}


def _rows(evaluations: Sequence[Mapping[str, Any]], section: str) -> list[tuple[str, list[Any]]]:
    """The table rows of a section, with one cell per set."""
    names = dict.fromkeys(name for evaluation in evaluations for name in evaluation[section])
    return [(name, [evaluation[section].get(name) for evaluation in evaluations]) for name in names]
