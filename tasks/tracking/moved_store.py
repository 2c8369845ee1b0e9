"""Follows a storage root that was moved: MLflow's SQLite store keeps absolute paths."""

import os
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from infra.run_logger import logger

ARTIFACTS = "mlartifacts"
# The columns of the store that say where files are, by table.
LOCATIONS = {
    "experiments": "artifact_location",
    "logged_models": "artifact_location",
    "model_versions": "storage_location",
    "runs": "artifact_uri",
}


def artifacts_of(uri: str) -> Path:
    """The folder for the files of a SQLite store, beside its database."""
    return Path(uri.removeprefix("sqlite:///")).resolve().parent / ARTIFACTS


@cache
def follow_move(uri: str) -> None:
    """Let a SQLite store lead to the files beside it, if they are no longer where it says.

    Otherwise, new runs would write to the old place, or fail. Stores on servers are left alone.
    """
    database, artifacts = Path(uri.removeprefix("sqlite:///")), artifacts_of(uri)
    if not uri.startswith("sqlite:///") or not database.is_file() or not artifacts.is_dir():
        return
    with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        for before in _recorded_folders(connection):
            # A place that may not be read has nothing for this process either.
            if before != artifacts.as_uri() and not os.path.exists(unquote(urlsplit(before).path)):
                _replace(connection, before, artifacts.as_uri())
                logger().info(f"MLflow's files were moved from {before} to {artifacts}.")


def _recorded_folders(connection: sqlite3.Connection) -> list[str]:
    """The URIs of the folders in which the experiments of this project were created."""
    rows = connection.execute("SELECT artifact_location, name FROM experiments").fetchall()
    suffixes = {location: f"/{ARTIFACTS}/{quote(name)}" for location, name in rows if location}
    return sorted(
        {
            location.removesuffix(suffix) + f"/{ARTIFACTS}"
            for location, suffix in suffixes.items()
            if location.startswith("file:") and location.endswith(suffix)
        }
    )


def _replace(connection: sqlite3.Connection, before: str, now: str) -> None:
    """Replace the beginning of all locations below a folder."""
    for table, column in LOCATIONS.items():
        connection.execute(
            f"UPDATE {table} SET {column} = ? || substr({column}, ?)"
            f" WHERE substr({column}, 1, ?) = ?",
            (now, len(before) + 1, len(before) + 1, f"{before}/"),
        )
