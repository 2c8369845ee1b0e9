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


def ticks(values: Sequence[float], wanted: int, smallest: float = 0.0) -> list[float]:
    """About `wanted` round numbers that enclose the values, at least `smallest` apart."""
    low, high = min(values), max(values)
    rough = max((high - low) / wanted, abs(high) / 1000, 1e-3)
    power = 10.0 ** math.floor(math.log10(rough))
    step = max(next(power * m for m in (1, 2, 5, 10) if power * m >= rough), smallest)
    first, last = math.floor(low / step), math.ceil(high / step)
    if first == last:
        first, last = first - 1, last + 1
    return [round(i * step, 10) for i in range(first, last + 1)]


def scale(low: float, high: float, first: float, last: float) -> Callable[[float], float]:
    """The linear map from low..high to first..last, or to the middle if low equals high."""
    if low == high:
        return lambda value: (first + last) / 2
    return lambda value: first + (last - first) * (value - low) / (high - low)


def line(variant: int, name: str, of: str, points: Points) -> View:
    """A variant's line. `variant` is the variant's number, `of` what the line shows."""
    return {"variant": variant, "name": name, "of": of, "points": points}


def guide(points: Points, variant: int | None = None) -> View:
    """A reference line without markers, in a variant's colour or a neutral one."""
    return {"variant": variant, "points": points}


def plot(
    title: str,
    across: str,
    unit: str,
    lines: Sequence[View],
    guides: Sequence[View] = (),
    smallest: float = 0.0,
) -> View:
    """A chart of `lines` over `guides`; its axes cover both.

    `across` labels the x axis, whose ticks are at least `smallest` apart; `unit` labels the y axis.
    """
    every = [point for one in [*lines, *guides] for point in one["points"]]
    across_values, values = [x for x, _ in every], ticks([y for _, y in every], 5)
    low, high = min(across_values), max(across_values)
    x_of = scale(low, high, PLOT_LEFT + 6, PLOT_RIGHT - 6)
    y_of = scale(values[0], values[-1], PLOT_BOTTOM, PLOT_TOP)

    def path(points: Points) -> str:
        return " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in points)

    return {
        "title": title,
        "across": across,
        "unit": unit,
        "lines": [
            {
                **one,
                "path": path(one["points"]),
                "marks": [(x_of(x), y_of(y), x, y) for x, y in _thinned(one["points"])],
            }
            for one in lines
        ],
        "kinds": list(dict.fromkeys(one["of"] for one in lines)),
        "guides": [{**one, "path": path(one["points"])} for one in guides],
        "x_ticks": [
            (x_of(tick), f"{tick:g}")
            for tick in ticks(across_values, 6, smallest)
            if low <= tick <= high
        ],
        "y_ticks": [(y_of(tick), f"{tick:g}") for tick in values],
        "frame": (PLOT_LEFT, PLOT_RIGHT, PLOT_TOP, PLOT_BOTTOM),
        "size": (CHART_WIDTH, CHART_HEIGHT),
    }


def _thinned(points: Points) -> Points:
    return points[:: math.ceil(len(points) / MARKS)]
