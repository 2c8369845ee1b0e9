"""Waits for lines of the project's log."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from infra.run_logger import logger


@contextmanager
def watched_log(text: str) -> Iterator[Event]:
    """Yield an event that is set when a line with this text is logged outside of flow runs."""
    logged, project = Event(), logger()
    assert isinstance(project, logging.Logger)

    def watch(record: logging.LogRecord) -> bool:
        if text in record.getMessage():
            logged.set()
        return True

    project.addFilter(watch)
    try:
        yield logged
    finally:
        project.removeFilter(watch)
