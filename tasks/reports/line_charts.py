"""Line charts in drawing coordinates, with one or more lines for each variant of a report."""

import math
from collections.abc import Callable, Sequence
from typing import Any

View = dict[str, Any]
Points = list[tuple[float, float]]

CHART_WIDTH, CHART_HEIGHT = 440, 260
PLOT_LEFT, PLOT_RIGHT, PLOT_TOP, PLOT_BOTTOM = 56, 432, 12, 210
MARKS = 12
"""Approximate number of points of a line that get its variant's marker."""


def ticks(values: Sequence[float], wanted: int, min_step: float = 0.0) -> list[float]:
    """About `wanted` round numbers that enclose the values, at least `min_step` apart."""
    low, high = min(values), max(values)
    rough = max((high - low) / wanted, abs(high) / 1000, 1e-3)
    power = 10.0 ** math.floor(math.log10(rough))
    step = max(next(power * m for m in (1, 2, 5, 10) if power * m >= rough), min_step)
    first, last = math.floor(low / step), math.ceil(high / step)
    if first == last:
        first, last = first - 1, last + 1
    return [round(i * step, 10) for i in range(first, last + 1)]


def scale(low: float, high: float, first: float, last: float) -> Callable[[float], float]:
    """The linear map from low..high to first..last, or to the middle if low equals high."""
    if low == high:
        return lambda value: (first + last) / 2
    return lambda value: first + (last - first) * (value - low) / (high - low)


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
    min_x_step: float = 0.0,
) -> View:
    """A chart of `lines` over `guides`; its axes cover both.

    The ticks of the x axis are at least `min_x_step` apart.
    """
    points = [point for curve in [*lines, *guides] for point in curve["points"]]
    xs, y_ticks = [x for x, _ in points], ticks([y for _, y in points], 5)
    low, high = min(xs), max(xs)
    x_of = scale(low, high, PLOT_LEFT + 6, PLOT_RIGHT - 6)
    y_of = scale(y_ticks[0], y_ticks[-1], PLOT_BOTTOM, PLOT_TOP)

    def path(points: Points) -> str:
        return " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in points)

    return {
        "title": title,
        "x_label": x_label,
        "y_label": y_label,
        "lines": [
            {
                **curve,
                "path": path(curve["points"]),
                "marks": [(x_of(x), y_of(y), x, y) for x, y in _thinned(curve["points"])],
            }
            for curve in lines
        ],
        "series": list(dict.fromkeys(curve["series"] for curve in lines)),
        "guides": [{**curve, "path": path(curve["points"])} for curve in guides],
        "x_ticks": [
            (x_of(tick), f"{tick:g}") for tick in ticks(xs, 6, min_x_step) if low <= tick <= high
        ],
        "y_ticks": [(y_of(tick), f"{tick:g}") for tick in y_ticks],
        "frame": (PLOT_LEFT, PLOT_RIGHT, PLOT_TOP, PLOT_BOTTOM),
        "size": (CHART_WIDTH, CHART_HEIGHT),
    }


def _thinned(points: Points) -> Points:
    return points[:: math.ceil(len(points) / MARKS)]
