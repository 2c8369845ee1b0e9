"""Pages at the place where people look for them: `reports` below the root."""

import os
import shutil
from pathlib import Path

from infra.settings import settings


def reports_folder() -> Path:
    """The folder of all pages; each shows the newest of its kind."""
    return settings().root.resolve() / "reports"


def publish_page(made: Path, name: str) -> Path:
    """Copy a page to its place, by its path below the folder; there it is whole at any time."""
    place = reports_folder() / name
    place.parent.mkdir(parents=True, exist_ok=True)
    copied = place.with_name(f".{place.name}.{os.getpid()}")
    shutil.copyfile(made, copied)
    os.replace(copied, place)
    return place
