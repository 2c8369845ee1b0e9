"""A self-contained HTML page that shows evaluations of sets of word vectors side by side."""

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
"""Width and height of a map, in drawing units."""


def write_judgement(
    out: Path,
    names: Sequence[str],
    judged: Sequence[Path],
    left_out: Sequence[str] = (),
    template: Path = TEMPLATE,
) -> dict[str, Any]:
    """Write judgement.html about one or more sets, from the results of `judge_vectors`.

    `left_out` names the published tests whose files are missing. The template is a stage input, so
    that editing it rebuilds the page.
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
    """The data for the template: table rows with one cell per set."""
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
    """JSON that is safe inside a script element, whatever words it contains."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
