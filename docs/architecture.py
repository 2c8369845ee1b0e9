"""Draws docs/architecture.svg, each package above those that it imports, and writes the list of
files at the end of docs/architecture.md.

Use: python docs/architecture.py

The imports include those inside functions and those for type checking. An arrow is left out if
other arrows lead to the same package.
"""

import ast
import re
import sys
from collections.abc import Iterable
from html import escape
from itertools import pairwise
from pathlib import Path

import grimp

CHECKOUT = Path(__file__).resolve().parents[1]
DRAWING = CHECKOUT / "docs" / "architecture.svg"
PAGE = DRAWING.with_suffix(".md")
FILES = "## Every file"  # the last heading of the page
ROOTS = ("flows", "tasks", "models", "infra")

Graph = dict[str, set[str]]  # a package -> the packages that it imports
Point = tuple[float, float]

COLORS = {"flows": "#dbe9f9", "tasks": "#e6f3e3", "models": "#fbead7", "infra": "#ece7f6"}
BORDERS = {"flows": "#3b6ea5", "tasks": "#4b8a3f", "models": "#b8742a", "infra": "#6f58a8"}
LABELS = {"tasks": "tasks.stages"}  # the only module directly in the package
WIDTH, MARGIN = 780, 16
BOX_HEIGHT, GAP_X, GAP_Y = 40, 22, 52
CHARACTER = 7.3  # pixels, at 13 pixels of a sans-serif font
SWEEPS = 40


def imports_of_packages() -> tuple[Graph, dict[str, int]]:
    """The imports between packages, and the number of files of each."""
    modules = grimp.build_graph(ROOTS[0], *ROOTS[1:], cache_dir=None)
    packages = {name for name in modules.modules if modules.find_children(name)}
    files: dict[str, int] = {}
    graph: Graph = {}
    for name in sorted(modules.modules - packages):
        package = name.rpartition(".")[0]
        files[package] = files.get(package, 0) + 1
        graph.setdefault(package, set())
    for name in modules.modules - packages:
        package = name.rpartition(".")[0]
        for imported in modules.find_modules_directly_imported_by(name):
            other = imported if imported in packages else imported.rpartition(".")[0]
            if other != package:
                graph[package].add(other)
    return graph, files


def reachable(graph: Graph, start: str) -> set[str]:
    """All packages that a package imports, directly or not."""
    reached: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += graph[name]
    return reached


def reduced(graph: Graph) -> Graph:
    """The transitive reduction: the graph without imports that longer paths imply."""
    return {
        name: {
            other
            for other in imported
            if not any(other in reachable(graph, via) for via in imported - {other})
        }
        for name, imported in graph.items()
    }


def layers(graph: Graph) -> dict[str, int]:
    """Each package's layer: 0 if it imports none, else one above the highest that it imports."""
    numbers: dict[str, int] = {}

    def layer(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            sys.exit(f"Import cycle: {' -> '.join([*above[above.index(name) :], name])}")
        if name not in numbers:
            imported = [layer(other, (*above, name)) for other in sorted(graph[name])]
            numbers[name] = 1 + max(imported, default=-1)
        return numbers[name]

    for name in sorted(graph):
        layer(name)
    return numbers


class Layout:
    """Positions of the boxes, and of the arrows where they pass a layer: Sugiyama's method."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.layer = layers(graph)
        self.rows: list[list[str]] = [[] for _ in range(1 + max(self.layer.values()))]
        for name in sorted(graph, key=lambda name: (ROOTS.index(name.partition(".")[0]), name)):
            self.rows[self.layer[name]].append(name)
        self.paths = [
            self._path(name, other) for name in sorted(graph) for other in sorted(graph[name])
        ]
        self.neighbors: dict[str, list[str]] = {name: [] for row in self.rows for name in row}
        for path in self.paths:
            for start, end in pairwise(path):
                self.neighbors[start].append(end)
                self.neighbors[end].append(start)
        self.x: dict[str, float] = {}
        self._order()

    def _path(self, name: str, other: str) -> list[str]:
        """The points of an arrow: its two packages, and one point on each layer between them."""
        path = [name]
        for number in range(self.layer[name] - 1, self.layer[other], -1):
            path.append(f"{name}>{other}@{number}")
            self.rows[number].append(path[-1])
        return [*path, other]

    def _order(self) -> None:
        """Order each layer by the mean position of its members' neighbors, sweeping up and down."""
        best = None
        for sweep in range(SWEEPS):
            self._space()
            crossings = self.crossings()
            if best is None or crossings < best[0]:
                best = crossings, [list(row) for row in self.rows]
            indices = range(len(self.rows))
            for number in indices if sweep % 2 else reversed(indices):
                reference = {number - 1} if sweep % 2 else {number + 1}
                self.rows[number].sort(key=lambda name: self._mean_x(name, reference))
                self._space()
        assert best is not None
        self.rows = best[1]
        self._space()
        for _ in range(SWEEPS):
            self._pull()

    def _row_of(self, name: str) -> int:
        return int(name.rpartition("@")[2]) if "@" in name else self.layer[name]

    def _mean_x(self, name: str, rows: Iterable[int]) -> float:
        xs = [self.x[other] for other in self.neighbors[name] if self._row_of(other) in rows]
        return sum(xs) / len(xs) if xs else self.x[name]

    def _space(self) -> None:
        """Put each layer's members side by side, centered in the drawing."""
        for row in self.rows:
            total = sum(width(name) for name in row) + GAP_X * (len(row) - 1)
            left = (WIDTH - total) / 2
            for name in row:
                self.x[name] = left + width(name) / 2
                left += width(name) + GAP_X

    def _pull(self) -> None:
        """Move everything towards what it is connected to, as far as there is room in its row."""
        for row in self.rows:
            for position, name in enumerate(row):
                others = self.neighbors[name]
                xs = [self.x[other] for other in others] or [self.x[name]]
                wanted = sum(xs) / len(xs)
                low, high = MARGIN + width(name) / 2, WIDTH - MARGIN - width(name) / 2
                if position:
                    before = row[position - 1]
                    low = max(low, self.x[before] + (width(before) + width(name)) / 2 + GAP_X)
                if position + 1 < len(row):
                    after = row[position + 1]
                    high = min(high, self.x[after] - (width(after) + width(name)) / 2 - GAP_X)
                self.x[name] = round(min(max(wanted, low), max(low, high)), 1)

    def crossings(self) -> int:
        """The number of crossings between arrows."""
        pieces: dict[int, list[tuple[float, float]]] = {}
        for path in self.paths:
            for start, end in pairwise(path):
                pieces.setdefault(self._row_of(start), []).append((self.x[start], self.x[end]))
        return sum(
            (a - c) * (b - d) < 0
            for lines in pieces.values()
            for number, (a, b) in enumerate(lines)
            for c, d in lines[number + 1 :]
        )

    def y(self, name: str) -> float:
        """The y coordinate of the top of a box, or of an arrow's gap."""
        return MARGIN + (len(self.rows) - 1 - self._row_of(name)) * (BOX_HEIGHT + GAP_Y)


def label(name: str) -> str:
    """The text in a package's box."""
    return LABELS.get(name, name)


def width(name: str) -> float:
    """The width of a package's box, or of the gap through which an arrow passes."""
    return 4.0 if "@" in name else len(label(name)) * CHARACTER + 24


def curve(points: list[Point]) -> str:
    """A line through the points that leaves and reaches each of them downwards."""
    parts = [f"M{points[0][0]:.1f},{points[0][1]:.1f}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (y + to_y) / 2
        parts.append(f"C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}")
    return " ".join(parts)


def arrow(layout: Layout, path: list[str]) -> str:
    """The arrow from a package to one that it imports."""
    first, *between, last = path
    points = [(layout.x[first], layout.y(first) + BOX_HEIGHT)]
    for name in between:
        points += [
            (layout.x[name], layout.y(name)),
            (layout.x[name], layout.y(name) + BOX_HEIGHT),
        ]
    points.append((layout.x[last], layout.y(last) - 5))
    border = BORDERS[first.partition(".")[0]]
    return f'<path d="{curve(points)}" stroke="{border}" marker-end="url(#head)"/>'


def box(layout: Layout, name: str, files: int) -> str:
    """A package: its name and its number of files."""
    root, x, y = name.partition(".")[0], layout.x[name], layout.y(name)
    box_width = width(name)
    count = "1 file" if files == 1 else f"{files} files"
    return (
        f'<rect x="{x - box_width / 2:.1f}" y="{y:.1f}" width="{box_width:.1f}" '
        f'height="{BOX_HEIGHT}" rx="6" fill="{COLORS[root]}" stroke="{BORDERS[root]}"/>'
        f'<text x="{x:.1f}" y="{y + 17:.1f}">{escape(label(name))}</text>'
        f'<text x="{x:.1f}" y="{y + 32:.1f}" class="count">{count}</text>'
    )


def drawing() -> str:
    """The picture, as SVG."""
    graph, files = imports_of_packages()
    layout = Layout(reduced(graph))
    height = 2 * MARGIN + len(layout.rows) * (BOX_HEIGHT + GAP_Y) - GAP_Y
    arrows = [arrow(layout, path) for path in layout.paths]
    boxes = [box(layout, name, files[name]) for name in sorted(graph)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}">',
            "<title>The packages; an arrow points to a package that is imported</title>",
            "<style>text { font: 13px sans-serif; text-anchor: middle; fill: #1c1c1c } "
            ".count { font-size: 11px; fill: #555 }</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="5" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker>'
            "</defs>",
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            '<g fill="none" stroke-width="1.2" stroke-opacity="0.75">',
            *arrows,
            "</g>",
            *boxes,
            "</svg>",
            "",
        ]
    )


def with_files(page: str) -> str:
    """The page, with the current list of files below its last heading."""
    lines: list[str] = []
    for package in ROOTS:
        for folder in sorted({file.parent for file in (CHECKOUT / package).rglob("*.py")}):
            files = sorted(file for file in folder.glob("*.py") if file.stem != "__init__")
            lines += ["", f"{folder.relative_to(CHECKOUT)}/"] if files else []
            lines += [f"  {file.name:<24} {_summary(file)}" for file in files]
    text, _, _ = page.partition(FILES)
    return f"{text}{FILES}\n\n```{chr(10).join(lines)}\n```\n"


def _summary(file: Path) -> str:
    """The first sentence of a module's docstring, in one line, without a final dot."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    sentence = re.split(r"(?<=\.)\s|\n\n", docstring, maxsplit=1)[0]
    return " ".join(sentence.split()).removesuffix(".")


if __name__ == "__main__":
    DRAWING.write_text(drawing(), encoding="utf-8")
    PAGE.write_text(with_files(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
