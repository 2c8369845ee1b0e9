"""Charts that matplotlib draws, as SVG elements inside a page."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any
from warnings import catch_warnings
from xml.dom import minidom

import numpy as np
from markupsafe import Markup

from tasks.reports.html import View, digits, plain

# matplotlib is imported locally, because it takes a second, and flows import this file.

Axes = Any  # matplotlib.axes.Axes
# The tooltip of each marker of an artist, by the artist's gid.
Tooltips = Mapping[str, Sequence[str]]

# Colours for `draw`. Each stands for the variable of that name in style.css, whose value depends on
# the reader's colour scheme.
COLOURS = {
    name: f"#{number:06x}"
    for number, name in enumerate(
        ("card", "grid", "soft", "ink", "accent", "v0", "v1", "v2", "v3", "v4", "v5"), start=1
    )
}
POINTS_PER_INCH = 72
STYLE = {
    "font.family": "DejaVu Sans",  # determines the layout only; style.css has the page's font
    "font.size": 13,
    "text.color": COLOURS["ink"],
    "text.parse_math": False,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": COLOURS["soft"],
    "axes.labelcolor": COLOURS["soft"],
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.autolimit_mode": "round_numbers",
    "axes.xmargin": 0,
    "axes.ymargin": 0,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": COLOURS["grid"],
    "xtick.major.pad": 5,
    "xtick.color": COLOURS["soft"],
    "ytick.color": COLOURS["soft"],
    "ytick.major.pad": 6,
    "ytick.major.size": 0,
    "svg.fonttype": "none",
}

Points = list[tuple[float, float]]

CHART_SIZE = (360, 225)
# Approximate number of points of a line that get its variant's marker.
MARKS = 12
VARIANT_COLOURS = 6
# Marker shapes, which distinguish the variants' lines without colour: matplotlib's name of each,
# and its SVG path for tables and legends. There are five, so that with six colours the first thirty
# variants have different combinations of shape and colour.
MARKERS = {
    "o": "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
    "s": "M-3.2 -3.2h6.4v6.4h-6.4z",
    "^": "M0 -4.2l4.2 7.4h-8.4z",
    "D": "M0 -4.6l4.6 4.6l-4.6 4.6l-4.6 -4.6z",
    "P": "M-1.3 -4h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7v-2.6h2.7z",
}


def inline_svg(
    name: str, label: str, size: tuple[float, float], draw: Callable[[Axes], Tooltips]
) -> Markup:
    """The chart that `draw` draws on its axes, as an SVG element that is as wide as its parent.

    `name` is unique on the page. `label` is the text for screen readers. `size` is the width and
    height in points, the unit of the drawing. The same chart gives the same text.
    """
    from matplotlib import figure, style

    file = StringIO()
    with (
        # The browser's fonts may have glyphs that matplotlib's font lacks and warns about.
        catch_warnings(action="ignore", category=UserWarning),
        style.context(["default", STYLE | {"svg.hashsalt": name}]),
    ):
        chart = figure.Figure((size[0] / POINTS_PER_INCH, size[1] / POINTS_PER_INCH))
        tooltips = draw(chart.subplots())
        chart.savefig(
            file, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(*size, label, Markup(_drawing(file.getvalue(), tooltips)))


def _drawing(svg: str, tooltips: Tooltips) -> str:
    """The drawing of an SVG file, with tooltips and the page's colours."""
    for name, colour in COLOURS.items():
        svg = svg.replace(f": {colour}", f": var(--{name})")
    document = minidom.parseString(svg)
    groups = document.getElementsByTagName("g")
    for group in groups:
        texts = tooltips.get(group.getAttribute("id"), ())
        for marker, text in zip(group.getElementsByTagName("use"), texts, strict=False):
            title = marker.appendChild(document.createElement("title"))
            title.appendChild(document.createTextNode(text))
    # Other charts of the page have the same groups, so their ids would not be unique.
    return re.sub('<g id="[^"]*"', "<g", groups[0].toxml())


# Line charts, with one or more lines for each variant of a report


def line(variant: int, name: str, series: str, points: Points) -> View:
    """A variant's line. `variant` is the variant's number, `series` names what the line shows."""
    return {"variant": variant, "name": name, "series": series, "points": points}


def guide(points: Points, variant: int | None = None) -> View:
    """A reference line without markers, in a variant's colour or a neutral one."""
    return {"variant": variant, "points": points}


def plot(
    title: str,
    x_label: str,
    y_label: str,
    lines: Sequence[View],
    guides: Sequence[View] = (),
    whole_x: bool = False,
) -> View:
    """A chart of `lines` over `guides`; its axes cover both.

    If `whole_x`, the x axis has ticks at whole numbers only.
    """

    starts: list[float] = []  # of the y axis, once it is drawn

    def draw(axes: Axes) -> Tooltips:
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.locator_params("x", integer=whole_x, min_n_ticks=1)
        axes.grid(axis="y", clip_on=False)
        for curve in guides:
            axes.plot(
                *np.transpose(curve["points"]),
                color=_colour(curve["variant"]),
                linewidth=1,
                dashes=(3, 3),
                clip_on=False,
            )
        for number, curve in enumerate(lines):
            axes.plot(*np.transpose(curve["points"]), gid=f"line{number}", **_line_style(curve))
        starts.append(axes.get_ylim()[0])
        return {f"line{number}": _tooltips(curve, x_label) for number, curve in enumerate(lines)}

    last_values = "".join(
        f" {curve['name']}, {curve['series']}: last value {digits(curve['points'][-1][1], 2)}."
        for curve in lines
    )
    label = f"{title}: {y_label}, by {x_label}.{last_values}"
    svg = inline_svg(title, label, CHART_SIZE, draw)
    return {
        "title": title,
        "starts_at": None if starts[0] == 0 else plain(starts[0]),
        "lines": lines,
        "guides": guides,
        "series": {curve["series"] for curve in lines},
        "svg": svg,
    }


def _colour(variant: int | None) -> str:
    return COLOURS["soft"] if variant is None else COLOURS[f"v{variant % VARIANT_COLOURS}"]


def _line_style(curve: View) -> View:
    """Training: dashed, with hollow markers. Evaluation: solid, with filled markers."""
    stroke, is_training = _colour(curve["variant"]), curve["series"] == "training"
    return {
        "color": stroke,
        "linewidth": 1.5 if is_training else 2,
        "linestyle": (0, (3.3, 2.7)) if is_training else "-",
        "marker": list(MARKERS)[curve["variant"] % len(MARKERS)],
        "markevery": _mark_step(curve),
        "markersize": 7,
        "markerfacecolor": COLOURS["card"] if is_training else stroke,
        "markeredgecolor": stroke if is_training else COLOURS["card"],
        "clip_on": False,
    }


def _mark_step(curve: View) -> int:
    return math.ceil(len(curve["points"]) / MARKS)


def _tooltips(curve: View, x_label: str) -> list[str]:
    return [
        f"{curve['name']}, {curve['series']}, {x_label} {plain(x)}: {digits(y, 2)}"
        for x, y in curve["points"][:: _mark_step(curve)]
    ]
