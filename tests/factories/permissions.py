"""A folder without permissions, also for tests that run as root, who may read everything."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest


def lock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create a folder that can be neither listed nor searched, as if its mode were 000."""
    folder.mkdir()
    stat, scandir = os.stat, os.scandir

    def refuse(path: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    def stat_elsewhere(path: Any, **options: Any) -> os.stat_result:
        if isinstance(path, str | Path) and folder in Path(path).parents:
            refuse(path)
        return stat(path, **options)

    def scan_elsewhere(path: Any = ".") -> Any:
        if isinstance(path, str | Path) and Path(path) == folder:
            refuse(path)
        return scandir(path)

    monkeypatch.setattr(os, "stat", stat_elsewhere)
    monkeypatch.setattr(os, "scandir", scan_elsewhere)
