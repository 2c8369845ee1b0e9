"""Versions of the running code: the checkout's commit and the installed packages."""

import platform
import subprocess
from importlib.metadata import version

from infra.settings import CHECKOUT

# Packages whose version can change a result.
PACKAGES = ("gensim", "mlflow", "numpy", "prefect", "pyarrow", "ray", "torch")


def git_commit() -> str | None:
    """The checkout's commit, with "-dirty" if files differ from it; None if git finds none."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that can change a result."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
