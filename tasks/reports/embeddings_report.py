"""Judgements of sets of word vectors side by side: one HTML page that needs nothing beside it."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from tasks.embeddings.evaluation.evaluate import JUDGEMENT

TEMPLATE = Path(__file__).parent / "templates" / "embeddings.html.j2"
SIZE = 1000
"""Width and height of a map, in its own units."""


def write_judgement(
    out: Path,
    names: Sequence[str],
    judged: Sequence[Path],
    left_out: Sequence[str] = (),
    template: Path = TEMPLATE,
) -> dict[str, Any]:
    """Write judgement.html about one or more judged sets, from what `judge_vectors` left.

    `left_out` names the published tests whose files were not here. The template is an input, so
    that an edit of it makes the page anew.
    """
    judgements = [
        {"name": name} | json.loads((folder / JUDGEMENT).read_text(encoding="utf-8"))
        for name, folder in zip(names, judged, strict=True)
    ]
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"percent": _percent, "number": _number}
    page = environment.from_string(template.read_text(encoding="utf-8"))
    shown = view(judgements) | {"left_out": left_out}
    (out / "judgement.html").write_text(page.render(shown), encoding="utf-8")
    return {}


def view(judgements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the template shows: rows of tables with a cell for each set."""
    return {
        "sets": judgements,
        "made": datetime.now().astimezone(),
        "similarity": _rows(judgements, "similarity"),
        "analogies": _rows(judgements, "analogies"),
        "coverage": _rows(judgements, "coverage"),
        "bias": _rows(judgements, "bias"),
        "neighbours": _rows(judgements, "neighbours"),
        "asked": _rows(judgements, "asked"),
        "size": SIZE,
        "maps": Markup(_script_json({j["name"]: j["map"] for j in judgements})),
    }


def _rows(judgements: Sequence[Mapping[str, Any]], part: str) -> list[tuple[str, list[Any]]]:
    names = dict.fromkeys(name for judgement in judgements for name in judgement[part])
    return [(name, [judgement[part].get(name) for judgement in judgements]) for name in names]


def _script_json(value: Any) -> str:
    """JSON that can stand inside a script element whatever words it holds."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
