"""A checkout and its environment in a folder with a name that shells and parsers misread."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from infra.own_packages import PACKAGES
from infra.plain_paths import LINKS
from infra.settings import CHECKOUT

NAME = "a b [c] & d's $e ;f"
FILES = ("Makefile", "constraints.txt", "prefect.yaml", "pyproject.toml")

# What pip writes if the path of Python is unfit for a line with #!.
SCRIPT = """\
#!/bin/sh
'''exec' {python} "$0" "$@"
' '''
import sys
from flows.__main__ import main
sys.exit(main())
"""


def environment_in(folder: Path) -> Path:
    """Create `.venv` in the folder, with the packages of the environment that runs the tests;
    returns its Python."""
    tests = Path(sys.prefix)
    packages = Path("lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(os.path.realpath(sys.executable))
    shutil.copy(tests / "pyvenv.cfg", folder / ".venv")
    (folder / ".venv" / packages.parent).mkdir(parents=True)
    (folder / ".venv" / packages).symlink_to(tests / packages)
    return python


def checkout_in(folder: Path) -> Path:
    """Copy the checkout into the folder, and create its environment; returns its Python."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / package, folder / package, ignore=ignored)
    for name in FILES:
        shutil.copy(CHECKOUT / name, folder)
    python = environment_in(folder)
    script = python.with_name("bidaflow")
    script.write_text(SCRIPT.format(python=shlex.quote(str(python))), encoding="utf-8")
    script.chmod(0o755)
    (folder / ".venv" / ".installed").touch()
    return python


def remove_links(folder: Path) -> None:
    """Remove the links to paths in the folder, which outlive the processes that used them."""
    for link in LINKS.iterdir():
        if link.readlink().is_relative_to(folder):
            link.unlink()
