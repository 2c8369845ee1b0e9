"""Prefect flows, one per module: what runs, and in which order."""

import runpy
import sys
from pathlib import Path

# By its path, because Python may find another package called `infra`.
own_packages = runpy.run_path(str(Path(__file__).parents[1] / "infra" / "own_packages.py"))
if problem := own_packages["foreign_package"]():
    sys.exit(problem)

from infra import environment  # noqa: E402
from infra.errors import UserError  # noqa: E402

try:
    environment.apply()
except UserError as error:
    # `main` has not been called yet, so nothing else turns the error into a message.
    sys.exit(str(error))
