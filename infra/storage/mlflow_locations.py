"""Keeps the locations in MLflow's SQLite store below the folder that the database lies in.

MLflow stores absolute locations. In a root that was moved, they lead nowhere. In a copy, they lead
to the original, whose files new runs would change and garbage collection would remove.
"""

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

from infra.errors import UserError
from infra.run_logger import logger

ARTIFACTS = "mlartifacts"
# Tag of experiments: the folder for files beside the database, when MLflow stored their location.
FOLDER_TAG = "bidaflow.artifacts"
# The columns of the store that say where files are, by table.
LOCATIONS = {
    "experiments": "artifact_location",
    "logged_models": "artifact_location",
    "model_versions": "storage_location",
    "runs": "artifact_uri",
    "trace_tags": "value",
}


def artifacts_of(uri: str) -> Path:
    """The folder for the files of a SQLite store, beside its database."""
    return _database_of(uri).resolve().parent / ARTIFACTS


@cache
def follow_database(uri: str) -> None:
    """Let all locations below the folder beside a SQLite database follow the database, once a
    process. Locations elsewhere, which a user has chosen, and stores on servers are left alone.

    Raises:
        UserError: the database was moved or copied, and may not be written to.
    """
    database = _database_of(uri)
    if not uri.startswith("sqlite:///") or not database.is_file():
        return
    now = artifacts_of(uri)
    with closing(sqlite3.connect(database, timeout=60)) as connection:
        if not _has_tags(connection):
            return  # MLflow is creating the tables
        try:
            with connection:
                _follow(connection, now)
        except sqlite3.DatabaseError as error:
            raise UserError(
                f"{database} was moved or copied, and its locations can't be corrected ({error}). "
                "Make the file and its folder writable."
            ) from error


def _database_of(uri: str) -> Path:
    return Path(uri.removeprefix("sqlite:///"))


def _has_tags(connection: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = 'experiment_tags'"
    return connection.execute(query).fetchone() is not None


def _follow(connection: sqlite3.Connection, now: Path) -> None:
    query = "SELECT DISTINCT value FROM experiment_tags WHERE key = ?"
    folders = {Path(folder) for (folder,) in connection.execute(query, (FOLDER_TAG,))}
    for before in sorted(folders - {now}):
        for old, new in ((before.as_uri(), now.as_uri()), (str(before), str(now))):
            _replace(connection, old, new)
        connection.execute(
            "UPDATE experiment_tags SET value = ? WHERE key = ? AND value = ?",
            (str(now), FOLDER_TAG, str(before)),
        )
        logger().info(f"MLflow's files were in {before}, and are in {now} now.")
    if not folders:  # tag those that MLflow's server has created below the folder
        connection.execute(
            "INSERT INTO experiment_tags (key, value, experiment_id) SELECT ?, ?, experiment_id"
            " FROM experiments"
            " WHERE 1 IN (instr(artifact_location, ?), instr(artifact_location, ?))",
            (FOLDER_TAG, str(now), f"{now}/", f"{now.as_uri()}/"),
        )


def _replace(connection: sqlite3.Connection, before: str, now: str) -> None:
    """Replace the beginning of all locations below a folder."""
    for table, column in LOCATIONS.items():
        connection.execute(
            f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE instr({column}, ?) = 1",
            (now, len(before) + 1, f"{before}/"),
        )
