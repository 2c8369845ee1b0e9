"""Helpers to write and ingest question files, and to read splits."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tasks.data.ingest import ingest_file
from tasks.data.ingested import Portion


def ingested(file: Path, weight: float = 1.0) -> Portion:
    folder = file.with_suffix("")
    folder.mkdir()
    ingest_file(folder, file)
    return Portion(folder, file.name, weight)


def write(file: Path, data: dict[str, Any]) -> Path:
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    table: Any = pq.read_table(folder / f"{name}.parquet")
    records: list[dict[str, Any]] = table.to_pylist()
    return records


def new(folder: Path) -> Path:
    folder.mkdir()
    return folder
