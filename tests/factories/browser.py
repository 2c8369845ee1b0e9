"""The system's Chromium, headless, for tests of pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
START_SECONDS = 300  # on a busy machine


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
