"""MLflow's SQLite database, made to fail."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def refusing_metrics(database: Path) -> Iterator[None]:
    """Within the block, MLflow can't write metrics to its database."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON metrics BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
        yield
        connection.execute("DROP TRIGGER refuse")
