"""Waits for lines of the project's log."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from infra.run_logger import logger


class _Watcher(logging.Handler):
    """Sets an event when a line with a text is logged."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.logged = text, Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self.text in record.getMessage():
            self.logged.set()


@contextmanager
def watched_log(text: str) -> Iterator[Event]:
    """Yield an event that is set when a line with this text is logged outside of flow runs."""
    watcher, project = _Watcher(text), logger()
    assert isinstance(project, logging.Logger)
    project.addHandler(watcher)
    try:
        yield watcher.logged
    finally:
        project.removeHandler(watcher)
