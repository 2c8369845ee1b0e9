"""Fetches the files of a trained model for a warm start."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra.settings import settings
from tasks.tracking import registry

MODEL_FILES = ("config.json", "weights.safetensors", "vectors.safetensors")
MODEL_TABLES = ("words.parquet", "characters.parquet")


def fetch_model(out: Path, source: str | Sequence[Path]) -> dict[str, Any]:
    """Copy a model's files to `out`/model: `source` is a logged model's id, or the files."""
    if isinstance(source, str):
        registry.download(settings().tracking_uri, source, out / "model")
    else:
        (out / "model").mkdir()
        for file in source:
            shutil.copyfile(file, out / "model" / file.name)
    return {}
