"""Renders self-contained HTML pages, and formats numbers for them."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


def render(page: str, view: Mapping[str, Any]) -> str:
    """The page of that template, rendered with the data of `view`, with inline styles."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FileSystemLoader(TEMPLATES),
    )
    environment.filters |= {"digits": digits, "whole": whole, "plain": plain, "percent": percent}
    style = Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))
    return environment.get_template(page).render({**view, "style": style})


def digits(value: float | None, places: int = 1) -> str:
    """A number with `places` decimal places; a dash if it is None or not finite."""
    return "–" if value is None or not math.isfinite(value) else f"{value:,.{places}f}"


def whole(value: float | None) -> str:
    """A number without decimal places."""
    return digits(value, 0)


def percent(share: float | None) -> str:
    """A share (0 to 1) in per cent with one decimal place; a dash if it is None."""
    return "–" if share is None else f"{100 * share:.1f} %"


def plain(value: Any) -> str:
    """A setting in readable form."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
