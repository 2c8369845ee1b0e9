"""MLflow's store: where it is, its parent runs, and a database that is made to fail."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tasks.tracking import runs


@contextmanager
def recording_at(uri: str) -> Iterator[str]:
    """Within the block, the settings name this store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", uri)
        yield uri


def parent_run(flow_run: str, dataset: str = "made", url: str = "") -> str:
    """The parent MLflow run of the flow run with this id and name, and URL, reopened or new."""
    runtime = {"ID": flow_run, "NAME": flow_run, "UI_URL": url}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in runtime.items():
            patch.setenv(f"PREFECT__RUNTIME__FLOW_RUN__{name}", value)
        return runs.parent_run_of(dataset)


@contextmanager
def refusing_metrics(database: Path) -> Iterator[None]:
    """Within the block, MLflow can't write metrics to its database."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON metrics BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
        yield
        connection.execute("DROP TRIGGER refuse")
