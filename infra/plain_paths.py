"""Paths without special characters for this installation, by which other programs can start it.

Ray builds the commands of its processes without quotes, Prefect those of flow runs, and the dynamic
linker and Python split lists of paths at colons. So a folder whose path has spaces, quotes or such
gets a link with a plain path. MLflow decodes %20 in the paths of its temporary files.
"""

import hashlib
import os
import re
import stat
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from infra.errors import UserError

SPECIAL = re.compile(r"[^\w./@+=,-]")

# Has the links of this user. It is private: whoever could replace one could run programs as the
# user.
LINKS = Path(f"/tmp/bidaflow-{os.getuid()}")


def plain(path: Path) -> Path:
    """An absolute path without special characters: the path itself, or that of a link to it.

    Raises:
        UserError: the folder of the links belongs to someone else.
    """
    path = path.absolute()
    if not SPECIAL.search(str(path)):
        return path
    LINKS.mkdir(mode=0o700, exist_ok=True)
    found = LINKS.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UserError(
            f"{path} contains special characters, so it needs a link in {LINKS}, which is not a "
            "private folder of yours. Remove that folder, or move the installation to a path "
            "without spaces and special characters."
        )
    link = LINKS / hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    with suppress(FileExistsError):
        link.symlink_to(path)
    return link


def use_plain_paths() -> None:
    """Let this process use plain paths of Python, of the packages and of Ray's temporary files.

    Call this before importing Ray, which takes its own path from where it was imported.
    """
    executable, prefix = Path(sys.executable), Path(sys.prefix)
    # A link to the executable alone would not find its virtual environment.
    folder = prefix if executable.is_relative_to(prefix) else executable.parent
    sys.executable = str(plain(folder) / executable.relative_to(folder))
    if (ray := find_spec("ray")) and ray.origin:
        packages = Path(ray.origin).parents[1]
        sys.path[:] = [
            str(plain(packages)) if Path(entry).absolute() == packages else entry
            for entry in sys.path
        ]
    for name in ("RAY_TMPDIR", "TMPDIR"):
        if SPECIAL.search(temporary := os.environ.get(name, "")):
            os.environ[name] = str(plain(Path(temporary)))
