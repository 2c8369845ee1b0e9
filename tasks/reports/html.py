"""Renders self-contained HTML pages, and formats numbers for them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Template:
    """The template files of a page. They are stage inputs, so editing them rebuilds the page."""

    page: Path
    parts: Path = TEMPLATES / "parts.html.j2"  # shared macros, imported by this file name
    style: Path = TEMPLATES / "style.css"

    def render(self, view: Mapping[str, Any]) -> str:
        """The page rendered with the data of `view`, with inline styles."""
        environment = Environment(
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            loader=DictLoader({self.parts.name: self.parts.read_text(encoding="utf-8")}),
        )
        environment.filters |= {"digits": digits, "whole": whole, "plain": plain}
        page = environment.from_string(self.page.read_text(encoding="utf-8"))
        return page.render({**view, "style": Markup(self.style.read_text(encoding="utf-8"))})


def digits(value: float | None, places: int = 1) -> str:
    """A number with `places` decimal places; a dash if it is None or not finite."""
    return "–" if value is None or not math.isfinite(value) else f"{value:,.{places}f}"


def whole(value: float | None) -> str:
    """A number without decimal places."""
    return digits(value, 0)


def plain(value: Any) -> str:
    """A setting in readable form."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
