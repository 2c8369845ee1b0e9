"""Line charts, with one or more lines for each variant of a report."""

import math
from collections.abc import Sequence

import numpy as np

from tasks.reports.html import View, digits, plain
from tasks.reports.inline_svg import COLOURS, Axes, Tooltips, inline_svg

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

    def draw(axes: Axes) -> Tooltips:
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.locator_params("x", integer=whole_x, min_n_ticks=1)
        axes.grid(axis="y", clip_on=False)
        for curve in guides:
            style = {"color": _colour(curve["variant"]), "linewidth": 1, "dashes": (3, 3)}
            axes.plot(*np.transpose(curve["points"]), clip_on=False, **style)
        for number, curve in enumerate(lines):
            xs, ys = np.transpose(curve["points"])
            axes.plot(xs, ys, gid=f"line{number}", **_line_style(curve))
        return {f"line{number}": _tooltips(curve, x_label) for number, curve in enumerate(lines)}

    last_values = "".join(
        f" {curve['name']}, {curve['series']}: last value {digits(curve['points'][-1][1], 2)}."
        for curve in lines
    )
    label = f"{title}: {y_label}, by {x_label}.{last_values}"
    return {
        "title": title,
        "lines": lines,
        "guides": guides,
        "series": {curve["series"] for curve in lines},
        "svg": inline_svg(title, label, CHART_SIZE, draw),
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
    """The values at the markers."""
    return [
        f"{curve['name']}, {curve['series']}, {x_label} {plain(x)}: {digits(y, 2)}"
        for x, y in curve["points"][:: _mark_step(curve)]
    ]
