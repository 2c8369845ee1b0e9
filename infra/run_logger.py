"""The logger of the current flow or task run."""

import logging

# Prefect is imported where it is used: it takes seconds to load.


def logger() -> logging.Logger | logging.LoggerAdapter[logging.Logger]:
    """The current run's logger; outside of runs, the project's."""
    from prefect.exceptions import MissingContextError
    from prefect.logging import get_logger, get_run_logger

    try:
        return get_run_logger()
    except MissingContextError:
        project = get_logger("bidaflow")
        project.setLevel(logging.INFO)  # its parent logs warnings only
        return project
