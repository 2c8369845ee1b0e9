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


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`python -m infra.environment command`, run with only PATH and these variables set."""
    return subprocess.run(
        [sys.executable, "-m", "infra.environment", *command],
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_command_runs_with_the_environment(tmp_path: Path) -> None:
    done = run("env", BIDAFLOW_ROOT=str(tmp_path), DO_NOT_TRACK="0")
    variables = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    assert variables["PREFECT_HOME"] == str(tmp_path / "prefect")
    assert variables["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert variables["DO_NOT_TRACK"] == "0"
    assert (done.returncode, done.stderr) == (0, "")


def test_command_keeps_arguments_and_exit_status(tmp_path: Path) -> None:
    done = run("sh", "-c", 'echo "$0"; exit 3', "two words", BIDAFLOW_ROOT=str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "two words\n")


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
