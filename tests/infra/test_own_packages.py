"""Foreign packages with the names of ours, where Python finds them first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.artifacts.stage import source_modules
from infra.own_packages import PACKAGES
from infra.settings import CHECKOUT
from tests.factories.cli import BIDAFLOW

MODULE = "tasks.training.train_variant"
PRINT_SOURCE = (
    f"from infra.artifacts.stage import source_modules; print(*source_modules({MODULE!r}))"
)
LOAD_FLOW = """
from prefect.flows import load_flow_from_entrypoint

load_flow_from_entrypoint("flows/check.py:check")
"""


def run(*command: str, path: str, folder: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with this `PYTHONPATH`."""
    return subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def write_foreign(folder: Path, name: str, file: str | None) -> Path:
    """Write a foreign package, a folder without `__init__.py` if `file` is None; returns it."""
    (folder / name).mkdir(parents=True)
    if file is not None:
        (folder / name / file).touch()
    return folder / name


def refusal(found: Path, name: str) -> str:
    return (
        f"Python finds {found} instead of bidaflow's own package {name}. Remove {found.parent} "
        "from PYTHONPATH or, if it is the current folder, start in another one."
    )


@pytest.mark.parametrize("file", ["__init__.py", None])
@pytest.mark.parametrize("name", PACKAGES)
def test_commands_refuse_a_foreign_package(tmp_path: Path, name: str, file: str | None) -> None:
    found = write_foreign(tmp_path, name, file)
    for done in (
        run(BIDAFLOW, "variants", path=str(tmp_path)),
        run(sys.executable, "-m", "flows", "variants", path="", folder=tmp_path),
    ):
        assert done.returncode == 1
        assert done.stderr.strip() == refusal(found, name)


def test_a_foreign_module_is_refused(tmp_path: Path) -> None:
    (tmp_path / "models.py").touch()
    done = run(BIDAFLOW, "variants", path=str(tmp_path))
    assert done.stderr.strip() == refusal(tmp_path / "models.py", "models")


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["models", "flows"])
def test_stages_have_no_keys_beside_a_foreign_package(tmp_path: Path, name: str) -> None:
    """Also in processes that import no flow."""
    found = write_foreign(tmp_path, name, "__init__.py")
    done = run(sys.executable, "-c", PRINT_SOURCE, path=str(tmp_path), folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith(f"UserError: {refusal(found, name)}\n")


@pytest.mark.heavy
def test_runs_of_a_worker_find_our_packages(tmp_path: Path) -> None:
    """Prefect puts the flow's folder in front."""
    write_foreign(tmp_path, "models", "__init__.py")
    done = run(sys.executable, "-P", "-c", LOAD_FLOW + PRINT_SOURCE, path=str(tmp_path))
    assert done.stdout.split() == source_modules(MODULE), done.stderr


@pytest.mark.heavy
def test_foreign_packages_behind_ours_change_no_key(tmp_path: Path) -> None:
    write_foreign(tmp_path, "models", "__init__.py")
    write_foreign(tmp_path, "tasks", None)
    path = os.pathsep.join([str(CHECKOUT), str(tmp_path)])
    done = run(sys.executable, "-c", PRINT_SOURCE, path=path, folder=tmp_path.parent)
    modules = done.stdout.split()
    assert modules == source_modules(MODULE)
    assert sum(module.startswith("models.") for module in modules) > 20
