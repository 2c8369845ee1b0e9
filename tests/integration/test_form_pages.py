"""The form of `retrain` in a real browser: what is typed is what is submitted."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page

from flows.retrain import retrain
from infra.services.form_schema import form_schema
from tests.factories.browser import browser, new_tab
from tests.factories.http import send_request
from tests.factories.ports import free_port
from tests.factories.services import wait

pytestmark = [pytest.mark.full, pytest.mark.browser, pytest.mark.timeout(1200)]

TYPED = {
    "Epochs (Optional)": "2",
    "Learning rate (Optional)": "0.001",
    "Patience (Optional)": "1",
    "Max rejected (Optional)": "0.2",
}
"""What is typed as numbers, by field."""


@dataclass(frozen=True)
class Form:
    """A Prefect server with a deployment of `retrain`, but no worker."""

    url: str
    deployment: str

    def post(self, path: str, body: Any) -> Any:
        return send_request("POST", f"{self.url}/api/{path}", body).json()

    def runs(self) -> list[dict[str, Any]]:
        """All runs, the newest first."""
        runs: list[dict[str, Any]] = self.post(
            "flow_runs/filter", {"sort": "EXPECTED_START_TIME_DESC"}
        )
        return runs

    def open(self, tab: Page) -> None:
        tab.goto(f"{self.url}/deployments/deployment/{self.deployment}/run")
        tab.get_by_text("Submit", exact=True).first.wait_for()


@pytest.fixture(scope="module")
def form(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Form]:
    url = f"http://127.0.0.1:{(port := free_port())}"
    home = str(tmp_path_factory.mktemp("prefect"))
    process = subprocess.Popen(
        [Path(sys.executable).with_name("prefect"), "server", "start", "--port", str(port)],
        env={**os.environ, "PREFECT_HOME": home, "PREFECT_UI_API_URL": f"{url}/api"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait("the server", lambda: _is_healthy(url))
        flow = Form(url, "").post("flows/", {"name": "retrain"})
        deployment = Form(url, "").post(
            "deployments/",
            {
                "name": "retrain",
                "flow_id": flow["id"],
                "enforce_parameter_schema": True,
                "parameter_openapi_schema": form_schema(retrain.parameters.model_dump()),
                "entrypoint": "flows/retrain.py:retrain",
            },
        )
        yield Form(url, deployment["id"])
    finally:
        process.terminate()
        process.wait(timeout=60)


def _is_healthy(url: str) -> bool:
    try:
        return send_request("GET", f"{url}/api/health").is_success
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def field(tab: Page, title: str, kind: str = "input") -> Locator:
    """The element for the value of a form's field."""
    return tab.locator(f'xpath=//label[.//span[text()="{title}"]]/following::{kind}[1]')


@pytest.mark.parametrize("width", [1280, 390])
def test_what_is_typed_is_submitted(form: Form, chromium: Browser, width: int) -> None:
    """Fields that are seldom set were folded, and opening them lost what was typed."""
    tab = new_tab(chromium, width, 860)
    form.open(tab)
    before = len(form.runs())
    field(tab, "Dataset", "textarea").fill("/nowhere/own.json")
    for title, value in TYPED.items():
        field(tab, title).fill(value)
    field(tab, "Source (Optional)", "textarea").fill("none")
    field(tab, "Optimizer (Optional)", "button").press("ArrowDown")
    tab.locator(".p-select-option", has_text=re.compile("^adam$")).click()
    shown = tab.locator("form").inner_text()
    assert not re.search("Property is type|All settings|Essentials", shown)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    for view in ("Use JSON input", "Use form input"):  # nothing else can be opened or closed
        tab.locator('xpath=//h3[text()="Parameters"]/following::button[1]').click()
        tab.get_by_text(view, exact=True).click()
    for title, value in TYPED.items():
        assert field(tab, title).input_value() == value
    tab.get_by_text("Submit", exact=True).first.click()
    sent = wait("the run", lambda: len(form.runs()) > before and form.runs()[0]["parameters"])
    assert sent["training"] == {
        "epochs": 2,
        "learning_rate": 0.001,
        "patience": 1,
        "optimizer": "adam",
    }
    assert (sent["data"]["dataset"], sent["data"]["max_rejected"]) == ("/nowhere/own.json", 0.2)
    assert sent["vectors"]["source"] == "none"
    tab.close()


def test_cleared_dataset_is_refused(form: Form, chromium: Browser) -> None:
    tab = new_tab(chromium, 1280, 860)
    form.open(tab)
    before = len(form.runs())
    field(tab, "Dataset", "textarea").fill("tiny")
    field(tab, "Dataset", "textarea").fill("")
    tab.get_by_text("Submit", exact=True).first.click()
    tab.wait_for_timeout(2_000)
    assert len(form.runs()) == before
    assert tab.url.endswith("/run"), "the form is still open"
    tab.close()


@pytest.mark.parametrize("parameters", [{}, {"data": {}}, {"data": {"dataset": None}}])
def test_quick_run_is_refused(form: Form, parameters: dict[str, Any]) -> None:
    refused = form.post(
        f"deployments/{form.deployment}/create_flow_run", {"parameters": parameters}
    )
    assert "Validation failed" in refused["detail"]
