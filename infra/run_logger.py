"""The logger of the current flow or task run."""

import logging
import sys

# Prefect is imported where it is used: it takes seconds to load.

Logger = logging.Logger | logging.LoggerAdapter[logging.Logger]


def run_logger() -> Logger | None:
    """The current run's logger; None outside of runs."""
    if "prefect" not in sys.modules:
        return None
    from prefect.exceptions import MissingContextError
    from prefect.logging import get_run_logger

    try:
        return get_run_logger()
    except MissingContextError:
        return None


def logger() -> Logger:
    """The current run's logger; outside of runs, the project's."""
    from prefect.logging import get_logger

    return run_logger() or get_logger("bidaflow")
