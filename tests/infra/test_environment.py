"""The environment variables that every process of the pipeline gets."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from infra import environment
from infra.processes import ServicesRecord, record_process
from infra.settings import CHECKOUT


def test_sets_missing_variables(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = environment.variables()
    for name in expected:
        monkeypatch.delenv(name)
    environment.apply()
    assert {name: os.environ[name] for name in expected} == expected
    assert os.environ["PREFECT_HOME"] == str(root / "prefect")
    assert (root / "prefect").is_dir()


def test_raises_the_limit_of_open_files(root: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        environment.apply()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft == min(environment.OPEN_FILES, hard) > 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("mlflow", "port"),
    [("http://127.0.0.1:5300", "5300"), ("https://mlflow.example.org:8443", None)],
)
def test_runs_link_to_the_running_servers(root: Path, mlflow: str, port: str | None) -> None:
    ServicesRecord(
        supervisor=record_process(os.getpid()),
        services={},
        prefect_url="http://127.0.0.1:4300",
        mlflow_url=mlflow,
    ).write()
    found = environment.variables()
    assert found["PREFECT_API_URL"] == "http://127.0.0.1:4300/api"
    assert found.get("BIDAFLOW_MLFLOW_PORT") == port


def test_keeps_variables_already_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = dict.fromkeys(environment.variables(), "own") | {"PREFECT_HOME": str(tmp_path / "own")}
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    environment.apply()
    assert {name: os.environ[name] for name in own} == own
    assert (tmp_path / "own").is_dir()


def test_address_of_prefect_has_no_slash_at_its_end(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect.example:4200/api/")
    environment.apply()
    assert os.environ["PREFECT_API_URL"] == "http://prefect.example:4200/api"


@pytest.mark.parametrize(
    "ascii_output",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
)
def test_output_that_is_not_utf_8_gets_escapes(root: Path, ascii_output: dict[str, str]) -> None:
    code = "import flows; print('50 \\u2026 60'); print('\\udcff')"
    variables = {
        "PATH": os.environ["PATH"],
        "BIDAFLOW_ROOT": str(root),
        **ascii_output,
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, env=variables, capture_output=True, check=True
    )
    assert done.stdout == rb"50 \u2026 60" b"\n" rb"\udcff" b"\n"


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
