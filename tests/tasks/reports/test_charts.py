"""Charts that matplotlib draws into a page: same text for the same chart, and nothing global."""

import re
import subprocess
import sys

import matplotlib
import pytest

from infra.settings import CHECKOUT
from tasks.reports.charts import COLOURS, STYLE, guide, line, plot
from tasks.reports.html import TEMPLATES
from tests.factories.html import Page, assert_self_contained, visible_text


def chart(title: str = "Loss", name: str = "char") -> str:
    """A chart of two variants, with a guide."""
    lines = [
        line(0, name, "training", [(1.0, 3.0), (2.0, 2.5), (3.0, 2.25)]),
        line(1, "docqa", "evaluation", [(1.0, 4.0), (2.0, 3.5)]),
    ]
    guides = [guide([(1.0, 2.0), (3.0, 2.0)], 1)]
    return str(plot(title, "epoch", "NLL, nats", lines, guides, whole_x=True)["svg"])


def test_same_chart_has_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = chart()
    monkeypatch.setitem(matplotlib.rcParams, "font.size", 40.0)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    before = {name: matplotlib.rcParams[name] for name in STYLE}
    assert chart() == expected
    assert {name: matplotlib.rcParams[name] for name in STYLE} == before
    program = f"from {__name__} import chart; import sys; sys.stdout.write(chart())"
    command = [sys.executable, "-c", f"{program}; assert 'matplotlib.pyplot' not in sys.modules"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert done.stdout == expected


def test_text_is_text_with_labels_and_tooltips() -> None:
    svg = chart()
    assert visible_text(svg).startswith("1 2 3 epoch 2.0 2.5 3.0 3.5 4.0 NLL, nats")
    for text in ("NLL, nats", "char, training, epoch 3: 2.25", "docqa, evaluation, epoch 1: 4.00"):
        assert text in visible_text(svg)
    attributes = Page(svg).elements[0][1]
    assert attributes["role"] == "img" and attributes["viewbox"] == "0 0 360 225"
    assert attributes["aria-label"] == (
        "Loss: NLL, nats, by epoch. char, training: last value 2.25. "
        "docqa, evaluation: last value 3.50."
    )
    assert "width" not in attributes


def test_colours_are_those_of_the_style_sheet() -> None:
    svg, style = chart(), (TEMPLATES / "style.css").read_text(encoding="utf-8")
    assert {"v0", "v1", "card", "grid", "soft"} <= set(re.findall(r"var\(--(\w+)\)", svg))
    assert not re.findall(r": #\w+", svg)
    for name in COLOURS:
        assert style.count(f"--{name}: #") == 2, "in light and in dark mode"


def test_charts_of_a_page_share_no_ids() -> None:
    page = chart("Loss") + chart("F1")
    assert_self_contained(page)
    ids = [value["id"] for _, value in Page(page).elements if "id" in value]
    assert ids and len(ids) == len(set(ids))


def test_hostile_and_foreign_names_are_text() -> None:
    svg = chart(name="</svg><script>$x$ 名前")
    assert "<script" not in svg
    assert "</svg><script>$x$ 名前, training, epoch 1: 3.00" in visible_text(svg)
    assert_self_contained(svg)
