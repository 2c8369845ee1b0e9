"""The log of the flow or task run that something happens in."""

import logging
import sys

# Prefect is imported where it is used: it takes seconds to load.

Logger = logging.Logger | logging.LoggerAdapter[logging.Logger]


def run_logger() -> Logger | None:
    """The run's own logger; None outside of runs."""
    if "prefect" not in sys.modules:
        return None
    from prefect.exceptions import MissingContextError
    from prefect.logging import get_run_logger

    try:
        return get_run_logger()
    except MissingContextError:
        return None


def logger() -> Logger:
    """The run's own logger, or outside of runs the project's."""
    from prefect.logging import get_logger

    return run_logger() or get_logger("bidaflow")
