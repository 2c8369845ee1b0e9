"""Storage roots that tests fill themselves."""

import json
from pathlib import Path

from infra.storage.root_format import FILE, FORMAT


def mark_root(folder: Path) -> Path:
    """Give a folder the format of a storage root; returns the folder."""
    (folder / FILE).write_text(json.dumps({"format": FORMAT}), encoding="utf-8")
    return folder
