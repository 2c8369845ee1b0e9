"""The system's Chromium, headless, for tests of pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
START_SECONDS = 300  # on a busy machine
PAGE_SECONDS = 300


@contextmanager
def browser() -> Iterator[Browser]:
    """The browser; the test is skipped without one."""
    if CHROMIUM is None:
        pytest.skip("needs a browser; install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu"],
            timeout=START_SECONDS * 1000,
        )
        try:
            yield opened
        finally:
            opened.close()


def new_tab(browser: Browser, width: int, height: int) -> Page:
    """A tab that waits longer for a page than Playwright's 30 seconds."""
    tab = browser.new_page(viewport={"width": width, "height": height})
    tab.set_default_timeout(PAGE_SECONDS * 1000)
    return tab
