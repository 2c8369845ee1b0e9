"""Charts that matplotlib draws, as SVG elements inside a page."""

import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any
from warnings import catch_warnings
from xml.dom import minidom

from markupsafe import Markup

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
NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def inline_svg(
    name: str, label: str, size: tuple[float, float], draw: Callable[[Axes], Tooltips]
) -> Markup:
    """The chart that `draw` draws on its axes, as an SVG element that is as wide as its parent.

    `name` is unique on the page. `label` is the text for screen readers. `size` is the width and
    height in points, the unit of the drawing. The same chart gives the same text.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    file = StringIO()
    # The browser's fonts may have glyphs that matplotlib's font lacks and warns about.
    no_warnings = catch_warnings(action="ignore", category=UserWarning)
    with no_warnings, style.context(["default", STYLE | {"svg.hashsalt": name}]):
        figure = Figure((size[0] / POINTS_PER_INCH, size[1] / POINTS_PER_INCH))
        tooltips = draw(figure.subplots())
        figure.savefig(file, format="svg", metadata=NO_METADATA)
    start = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">')
    return start.format(*size, label) + Markup(_drawing(file.getvalue(), tooltips) + "</svg>")


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
