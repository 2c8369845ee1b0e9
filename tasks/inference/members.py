"""The folders of the models that an ensemble consists of."""

import json
from pathlib import Path

MEMBERS = "members"  # their names in config.json


def member_folders(model: Path) -> list[Path]:
    """The folders of the members of an ensemble; [] for the folder of a single model."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    return [model / name for name in config.get(MEMBERS, ())]
