"""HTML pages that need nothing beside themselves, and numbers as their texts."""

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
    """The files that a page is made of. They are inputs of its stage, so that an edit of them
    makes the page anew."""

    page: Path
    parts: Path = TEMPLATES / "parts.html.j2"  # what pages share, imported by that name
    style: Path = TEMPLATES / "style.css"

    def render(self, view: Mapping[str, Any]) -> str:
        """The page that is made of a view, its style inside it."""
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
    """With so many decimal places; a dash for what is not known."""
    return "–" if value is None or not math.isfinite(value) else f"{value:,.{places}f}"


def whole(value: float | None) -> str:
    """Without decimal places."""
    return digits(value, 0)


def plain(value: Any) -> str:
    """A setting as people write it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
