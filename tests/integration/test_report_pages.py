"""All kinds of report pages in a real browser, on a phone and on a desktop."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from urllib.parse import urldefrag

import pytest
from playwright.sync_api import Browser, Page

from tasks.evaluation.bootstrap import Gain
from tasks.evaluation.evaluate import load_split, read_predictions
from tasks.evaluation.promotion_rule import Decision, SliceComparison
from tasks.reports.embeddings_report import write_embeddings_report
from tasks.reports.error_report import write_error_report
from tasks.reports.run_report import write_run
from tasks.reports.variant_result import VariantResult
from tests.factories.browser import new_tab
from tests.factories.http_server import http_server
from tests.factories.reports import (
    run_record,
    variant,
    vector_evaluation,
    written_report,
)
from tests.factories.runs import untrained_run
from tests.factories.splits import write_split

pytestmark = [pytest.mark.browser, pytest.mark.heavy]

NAMES = ["char", "char-selfattn", "char-selfattn-dot"]
SPANS = [(0, 4), (0, 0), (-1, -1), (0, 0)]
SIZES = {"phone": (390, 844), "desktop": (1280, 860)}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@dataclass(frozen=True)
class Site:
    """The served pages by their kind."""

    url: str
    pages: dict[str, str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("root")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIDAFLOW_ROOT", str(root))
        pages = write_pages(root)
    with http_server(partial(Quiet, directory=str(root / "reports"))) as url:
        yield Site(f"{url}/", pages)


def write_pages(root: Path) -> dict[str, str]:
    """Write eight runs on a dataset, and a page about word vectors."""
    reports = root / "reports"
    (root / "dev").mkdir()
    split = load_split(write_split(root / "dev"))
    scores = {f"dev/{name}_at_threshold": 50.0 for name in ("em", "f1", "avna")}
    report = root / "dev" / "report.html"
    trained = [
        variant(
            root / "dev",
            split,
            name,
            SPANS,
            run_url="http://127.0.0.1:5000/#/runs/1",
            scores={"dev/nll": 7.123, **scores},
            threshold=0.25,
        )
        for name in NAMES
    ]
    written_report(root / "dev", trained, dataset="own")
    model = untrained_run(root / "run", root / "dev", SPANS, "char", ["ada", "lovelace", "who"])
    run = VariantResult(
        "char",
        model,
        facts={"run_url": None},
        config=json.loads((model / "model" / "config.json").read_text())["variant"],
        history=[],
        answers=read_predictions(model / "predictions.parquet", split, "char"),
    )
    errors = root / "errors.html"
    write_error_report(errors, "own", run, split)
    gain = Gain(-71.1, -74.0, -67.0)
    parts = [
        SliceComparison(name, 2_341, 97.4, 26.3, gain)
        for name in ("all questions", "questions with words without a vector")
    ]
    reason = "F1 fell from 97.4 to 26.3 (95 % interval −74 to −67)"
    for day in range(1, 9):
        record = run_record(
            day,
            dict.fromkeys(NAMES, 50.0 + day),
            dataset="own",
            decision=Decision(day == 1, reason, parts if day > 1 else []),
            sentence=f"Version {day} (char) was not promoted: {reason}."
            if day > 1
            else "Version 1 (char) is now the champion: there was no champion before.",
        )
        write_run(reports / "own", record, report, dict.fromkeys(NAMES, errors))
    sets = {
        name: vector_evaluation(root / name, {"MEN": (f1, 0.9)}, 0.9)
        for name, f1 in (("glove-6b-50d", 0.4), ("fasttext-trained-here", 0.6))
    }
    write_embeddings_report(root, list(sets), list(sets.values()), dataset="own")
    (root / "embeddings.html").rename(reports / "vectors-two.html")
    folder = f"own/{run_record(8).folder}"
    return {
        "report": f"{folder}/report.html",
        "errors": f"{folder}/char.html",
        "vectors": "vectors-two.html",
    }


@pytest.fixture(scope="module", params=SIZES)
def tab(request: pytest.FixtureRequest, chromium: Browser) -> Iterator[Page]:
    opened = new_tab(chromium, *SIZES[request.param])
    yield opened
    opened.close()


KINDS = ["report", "errors", "vectors"]


@pytest.mark.parametrize("kind", KINDS)
def test_page_fits_its_width_and_loads_nothing(site: Site, tab: Page, kind: str) -> None:
    requests: list[str] = []
    problems: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.goto(site.url + site.pages[kind])
    for group in tab.locator("details").all():
        group.evaluate("element => element.open = true")
    icon = f"{site.url}favicon.ico"
    assert {url for url in requests if url != icon} == {site.url + site.pages[kind]}
    assert [text for text in problems if "404" not in text] == []
    width = tab.viewport_size["width"]  # type: ignore[index]
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


# The first cell with a digit of each table row, outside of closed details, that is not in sight.
HIDDEN_NUMBERS = """() => [...document.querySelectorAll('tbody tr')].map(row => {
  const cell = [...row.querySelectorAll('td')].find(cell => /[0-9]/.test(cell.textContent));
  if (!cell || !cell.offsetParent) return null;
  const range = document.createRange(), frame = cell.closest('.scroll').getBoundingClientRect();
  range.selectNodeContents(cell);
  const box = range.getBoundingClientRect();
  return box.right > frame.right ? row.textContent.trim() : null;
}).filter(Boolean)"""


@pytest.mark.parametrize("kind", KINDS)
def test_first_number_of_each_row_is_in_sight(site: Site, tab: Page, kind: str) -> None:
    tab.goto(site.url + site.pages[kind])
    assert tab.evaluate(HIDDEN_NUMBERS) == []


@pytest.mark.parametrize("kind", KINDS)
def test_relative_links_resolve(site: Site, tab: Page, kind: str) -> None:
    tab.goto(site.url + site.pages[kind])
    targets = tab.evaluate("[...document.links].map(link => link.href)")
    own = {urldefrag(url).url for url in targets if url.startswith(site.url)}
    assert own or kind == "vectors"
    assert {url: tab.request.get(url).status for url in own} == dict.fromkeys(own, 200)


def test_columns_that_link_on_are_in_sight(site: Site, chromium: Browser) -> None:
    tab = new_tab(chromium, *SIZES["desktop"])
    tab.goto(site.url + site.pages["report"])
    for link in tab.locator("table a").all():
        box = link.bounding_box()
        assert box is not None and box["x"] + box["width"] < 1280
        frame = link.locator("xpath=ancestor::*[contains(@class, 'scroll')]").bounding_box()
        assert frame is not None and box["x"] + box["width"] <= frame["x"] + frame["width"]
    tab.close()


def test_tables_of_vectors_are_in_sight(site: Site, chromium: Browser) -> None:
    tab = new_tab(chromium, *SIZES["desktop"])
    tab.goto(site.url + site.pages["vectors"])
    for frame in tab.locator(".scroll").all():
        assert frame.evaluate("frame => frame.scrollWidth <= frame.clientWidth")
    tab.close()


def test_charts_of_f1_say_where_their_axis_starts(site: Site, tab: Page) -> None:
    tab.goto(site.url + site.pages["report"])
    chart = tab.locator("figure", has=tab.locator("figcaption", has_text="F1")).first
    assert "The vertical axis starts at" in chart.inner_text()


def test_error_page_shows_ids_counts_and_a_link_back(site: Site, tab: Page) -> None:
    tab.goto(site.url + site.pages["errors"])
    assert "1 of 1 shown" in tab.locator("summary").first.inner_text()
    assert tab.locator(".scores code").first.inner_text() in {"q1", "q2", "q3", "q4"}
    tab.get_by_role("link", name="all variants of this run").click()
    assert tab.url == site.url + site.pages["report"]
