"""The four tasks of docs/operations.md in a real browser, step by step.

With `SCREENSHOTS=docs`, the pictures of the documentation are taken anew.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from infra.settings import CHECKOUT
from tests.factories.browser import PAGE_SECONDS, new_tab
from tests.factories.cli import write_dataset
from tests.factories.corpus import two_topic_sentences
from tests.factories.services import Server, Services, wait

pytestmark = [pytest.mark.full, pytest.mark.heavy, pytest.mark.browser, pytest.mark.timeout(3600)]

BOLD = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)
DESKTOP: ViewportSize = {"width": 1280, "height": 860}
SCREENSHOTS = os.environ.get("SCREENSHOTS")


class Guide:
    """The bold words of a task in the documentation, in order."""

    def __init__(self, task: str) -> None:
        page = (CHECKOUT / "docs" / "operations.md").read_text(encoding="utf-8")
        section = re.search(rf"^### {task}$(.*?)^##", page, re.MULTILINE | re.DOTALL)
        assert section is not None
        self.words = BOLD.findall(section[1])

    def __call__(self, word: str) -> str:
        """The next bold word, which must be this one."""
        assert self.words.pop(0) == word
        return word


class Screen:
    """A tab of the browser."""

    def __init__(self, tab: Page) -> None:
        self.tab = tab

    def element(self, text: str) -> Locator:
        """The first visible element with exactly this text."""
        return self.tab.get_by_text(text, exact=True).locator("visible=true").first

    def click(self, text: str) -> None:
        self.element(text).click()

    def fill(self, title: str, value: str) -> None:
        """Fill in the field of this title in Prefect's form."""
        text = re.compile(rf"^\s*{title}\b")
        label = self.tab.locator(".schema-form-property__label", has_text=text)
        field = self.tab.locator(".p-label", has=label).last
        field.locator("input, textarea").last.fill(value)

    def open_form(self, deployment: str) -> None:
        """The form of a new run of a deployment in Prefect."""
        self.click("Deployments")
        # Until the list is there, the name may be on the page before.
        self.tab.get_by_placeholder("Search deployments").wait_for()
        self.click(deployment)
        self.tab.locator(".run-menu__run-button").click()
        self.click("Custom run")
        self.tab.get_by_text("Run Name").wait_for()

    def take_picture(self, name: str) -> None:
        if SCREENSHOTS:
            self.tab.wait_for_timeout(3_000)  # animations
            self.tab.screenshot(path=Path(SCREENSHOTS) / f"walk-{name}.png")


@pytest.fixture(scope="module")
def screen(chromium: Browser) -> Screen:
    return Screen(new_tab(chromium, **DESKTOP))


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Services of a new root, as the guide assumes."""
    services = Services(tmp_path_factory.mktemp("walkthrough"))
    try:
        services.up()
        yield services
    finally:
        services.clean_up()


@pytest.fixture(scope="module")
def server(services: Services) -> Server:
    return Server(services)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the folders `tickets` and `texts`."""
    folder = tmp_path_factory.mktemp("data")
    write_dataset(folder / "tickets", train=6, contexts=10)
    (folder / "texts").mkdir()
    lines = "\n".join(" ".join(sentence) for sentence in two_topic_sentences())
    (folder / "texts" / "support.txt").write_text(lines, encoding="utf-8")
    return folder


def submit(screen: Screen, server: Server, flow: str = "retrain") -> str:
    """Submit the form, wait until the run has completed, and open it; returns its id."""
    before = server.newest(flow)
    button = screen.tab.get_by_role("button", name="Submit")

    def submitted() -> str | None:
        """The new run; the click is repeated if the form still checked its fields."""
        if button.is_visible() and button.is_enabled():
            button.click()
        screen.tab.wait_for_timeout(5_000)
        run = server.newest(flow)
        return run if run != before else None

    run = wait("the new run", submitted)
    assert server.ended(run) == "Completed", server.logs(run)
    screen.tab.goto(f"{server.services.record.prefect_url}/runs/flow-run/{run}")
    return str(run)


def test_schedule_gets_its_dataset(screen: Screen, server: Server, data: Path) -> None:
    guide = Guide("Schedule a retraining")
    screen.tab.goto(server.services.record.prefect_url)
    screen.click(guide("Deployments"))
    screen.click(guide("retrain"))
    screen.element(guide("weekly")).wait_for()
    screen.tab.locator("[class*=schedule] button.p-button").first.click()
    screen.click(guide("Edit"))
    overrides = screen.tab.locator("button", has_text="Select parameters to override")
    overrides.focus()
    overrides.press("ArrowDown")
    screen.tab.locator(".p-select-option", has_text=guide("data")).click()
    screen.tab.keyboard.press("Escape")
    screen.fill(guide("Dataset"), "/data/tickets")
    screen.take_picture("schedule")
    screen.fill("Dataset", str(data / "tickets"))
    screen.click(guide("Save"))
    screen.tab.get_by_text("Deployment schedule updated").first.wait_for()
    (weekly,) = server.services.deployment("retrain")["schedules"]
    assert weekly["parameters"]["data"]["dataset"] == str(data / "tickets")
    assert weekly["active"]
    assert guide.words == []


def test_run_is_started_from_its_form(screen: Screen, server: Server, data: Path) -> None:
    guide = Guide("Start a run")
    for word in ("Deployments", "retrain", "Run", "Custom run"):
        guide(word)
    screen.open_form("retrain")
    screen.fill(guide("Dataset"), str(data / "tickets"))
    screen.fill(guide("Epochs"), "2")
    for word in ("Submit", "Quick run"):
        guide(word)
    run = submit(screen, server)
    screen.click(guide("Artifacts"))
    for name in ("results", "decision", "mlflow"):
        screen.element(name).wait_for()
    screen.take_picture("run")
    assert {"results", "decision", "mlflow"} <= set(server.artifacts(run))
    assert guide.words == []


def test_runs_are_compared(screen: Screen, server: Server, data: Path) -> None:
    guide = Guide("Compare runs, and see which one was promoted")
    screen.open_form("retrain")
    screen.fill("Dataset", str(data / "tickets"))
    screen.fill("Epochs", "2")
    screen.fill(guide("Seed"), "1")
    submit(screen, server)

    screen.tab.goto(server.services.record.mlflow_url)
    screen.click(guide("Model training"))
    screen.click(guide("bidaflow/tickets"))
    boxes = screen.tab.locator(".ag-row .ag-checkbox-input")
    expect(boxes).to_have_count(2, timeout=PAGE_SECONDS * 1000)
    for box in boxes.all():
        box.check()
    screen.click(guide("Compare"))
    screen.tab.get_by_text("Comparing 2 Runs").wait_for()

    (newest, *_) = server.runs()
    (parent,) = server.mlflow_runs(str(newest["id"]), "parent")
    run = f"experiments/{parent.info.experiment_id}/runs/{parent.info.run_id}"
    screen.tab.goto(f"{server.services.record.mlflow_url}/#/{run}")
    screen.click(guide("Artifacts"))
    screen.click(guide("report.html"))
    report = screen.tab.frame_locator("iframe").locator("body")
    expect(report).to_contain_text(parent.data.tags["decision"])  # it says why
    assert guide.words == []


def test_vectors_are_trained_and_used(screen: Screen, server: Server, data: Path) -> None:
    guide = Guide("Train word vectors on your texts")
    screen.tab.goto(server.services.record.prefect_url)
    for word in ("Deployments", "train-embeddings", "Run", "Custom run", "Files"):
        guide(word)
    screen.open_form("train-embeddings")
    screen.click(guide("Add item"))
    screen.fill("Files", str(data / "texts"))
    screen.fill(guide("Name"), "support")
    screen.fill(guide("Evaluate on"), str(data / "tickets"))
    guide("Submit")
    submit(screen, server, "train-embeddings")
    reports = server.services.root / "reports"
    (page,) = reports.glob("vectors-*.html")
    screen.tab.goto(page.as_uri())
    expect(screen.tab.locator("body")).to_contain_text("support")

    screen.tab.goto(server.services.record.prefect_url)
    screen.open_form(guide("retrain"))
    screen.fill("Dataset", str(data / "tickets"))
    screen.fill("Epochs", "2")
    screen.fill(guide("Source"), "glove-6b-50d+support")
    run = submit(screen, server)
    (child, _) = server.mlflow_runs(run)
    assert "support" in child.data.params["vectors.source"]
    assert guide.words == []
