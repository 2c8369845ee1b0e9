"""Names of datasets, under which runs and models are filed."""

import re
from pathlib import Path

from tasks.datasets.catalog import DATASETS
from tasks.datasets.remote_files import is_uri


def dataset_name(dataset: str) -> str:
    """A dataset's name; for a path or URL, its last part, made valid for paths and MLflow."""
    if dataset in DATASETS:
        return dataset
    path = dataset.partition("?")[0] if is_uri(dataset) else dataset
    last = Path(path).expanduser().resolve().name
    plain = re.sub(r"(\.(jsonl?|ndjson|parquet|gz|xz|zst|zip))+$", "", last, flags=re.IGNORECASE)
    return re.sub(r"[^\w.-]+", "-", plain).strip("-.") or "data"
