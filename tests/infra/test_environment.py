"""The environment variables that every process of the pipeline gets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra import environment
from infra.settings import CHECKOUT


def test_sets_missing_variables(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = environment.variables()
    for name in expected:
        monkeypatch.delenv(name)
    environment.apply()
    assert {name: os.environ[name] for name in expected} == expected
    assert os.environ["PREFECT_HOME"] == str(root / "prefect")
    assert (root / "prefect").is_dir()


def test_keeps_variables_already_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = dict.fromkeys(environment.variables(), "own") | {"PREFECT_HOME": str(tmp_path / "own")}
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    environment.apply()
    assert {name: os.environ[name] for name in own} == own
    assert (tmp_path / "own").is_dir()


def test_importing_flows_sets_it_before_prefect_loads(tmp_path: Path) -> None:
    code = "import flows, os, sys; print(os.environ['PREFECT_HOME'], 'prefect' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], "BIDAFLOW_ROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{tmp_path}/prefect False\n"
