"""A storage root from the release before the packages were restructured."""

import json
import sqlite3
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.settings import CHECKOUT

DATA = CHECKOUT / "tests" / "data" / "last_release"

HOME = "/var/tmp/last-release"
"""The folder in which the root was created; the paths in the root are absolute."""

PATH_COLUMNS = {
    "mlflow.db": {
        "datasets": ["dataset_source"],
        "experiments": ["artifact_location"],
        "logged_models": ["artifact_location"],
        "model_versions": ["storage_location"],
        "runs": ["artifact_uri"],
    },
    "prefect/prefect.db": {
        "artifact": ["description"],
        "artifact_collection": ["description"],
        "deployment": ["parameters", "pull_steps"],
        "deployment_schedule": ["parameters"],
        "flow_run": ["parameters"],
        "task_run_state": ["data"],
    },
}
"""The columns of each database that hold paths, by table."""

TEXT_FILES = ("stages/*/*/manifest.json", "prefect/storage/*", "mlartifacts/**/MLmodel")


@dataclass(frozen=True)
class LastRelease:
    """An unpacked root, the data it was created from, and the answers of its champion."""

    root: Path
    tickets: Path
    vectors: Path
    questions: list[dict[str, str]]
    answers: list[dict[str, Any]]

    @property
    def tracking_uri(self) -> str:
        return f"sqlite:///{self.root}/mlflow.db"


def unpack_last_release(folder: Path) -> LastRelease:
    """Unpack the root into an empty folder; its paths then point there and to this checkout."""
    with tarfile.open(DATA / "root.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    root = folder / "root"
    for database, tables in PATH_COLUMNS.items():
        _move_paths_in_database(root / database, tables, folder)
    for pattern in TEXT_FILES:
        for file in root.glob(pattern):
            file.write_text(_moved(file.read_text(encoding="utf-8"), folder), encoding="utf-8")
    stored = json.loads((DATA / "answers.json").read_text(encoding="utf-8"))
    return LastRelease(
        root, folder / "tickets", folder / "vectors.txt", stored["questions"], stored["answers"]
    )


def _move_paths_in_database(file: Path, tables: dict[str, list[str]], folder: Path) -> None:
    database = sqlite3.connect(file)
    database.create_function("moved", 1, lambda text: _moved(text, folder))
    for table, columns in tables.items():
        for column in columns:
            database.execute(
                f"UPDATE {table} SET {column} = moved({column}) WHERE instr({column}, ?)", (HOME,)
            )
    database.commit()
    database.close()


def _moved(text: str, folder: Path) -> str:
    return text.replace(f"{HOME}/checkout", str(CHECKOUT)).replace(HOME, str(folder))
