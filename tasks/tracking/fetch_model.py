"""Fetches the files of a trained model for a warm start."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra.errors import UserError
from infra.settings import settings
from tasks.tracking import registry

MODEL_FILES = ("config.json", "weights.safetensors", "vectors.safetensors")
MODEL_TABLES = ("words.parquet", "characters.parquet")


def find_model_files(folder: str) -> list[Path]:
    """The files and tables of a model folder.

    Raises:
        UserError: one of them is missing.
    """
    files = [Path(folder).expanduser() / name for name in (*MODEL_FILES, *MODEL_TABLES)]
    for file in files:
        if not file.is_file():
            raise UserError(
                f"{folder} is not a model directory: it has no {file.name}. Use the model/ "
                "directory of a training, or models:/<name>@champion."
            )
    return files


def fetch_model(out: Path, source: str | Sequence[Path]) -> dict[str, Any]:
    """Copy a model's files to `out`/model: `source` is a logged model's id, or the files."""
    if isinstance(source, str):
        registry.download(settings().tracking_uri, source, out / "model")
    else:
        (out / "model").mkdir()
        for file in source:
            shutil.copyfile(file, out / "model" / file.name)
    return {}
