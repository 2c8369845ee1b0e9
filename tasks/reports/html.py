"""Writes self-contained HTML pages, and formats numbers for them."""

import math
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from infra.atomic_files import write_atomically
from tasks.evaluation.bootstrap import signed
from tasks.text.control_characters import without_control_characters

TEMPLATES = Path(__file__).parent / "templates"

# Data for a template.
View = dict[str, Any]


def write_page(out_file: Path, template: str, /, **view: Any) -> None:
    """Write a page from a template and its data, with the current time and inline styles."""
    write_atomically(out_file, render(template, **view))


def render(template: str, /, **view: Any) -> str:
    """A page, or a part of one, from a template and its data."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FileSystemLoader(TEMPLATES),
    )
    environment.filters |= {
        "digits": digits,
        "whole": partial(digits, places=0),
        "plain": plain,
        "percent": percent,
        "signed": signed,
    }
    page = environment.get_template(template).render(
        view,
        style=Markup((TEMPLATES / "style.css").read_text(encoding="utf-8")),
        created=datetime.now().astimezone(),
    )
    return without_control_characters(page)


def digits(value: float | None, places: int = 1) -> str:
    """A number with `places` decimal places; a dash if it is None or not finite."""
    return "–" if value is None or not math.isfinite(value) else f"{value:,.{places}f}"


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
