"""The Makefile hands its variables to `bidaflow`, and refuses those that it does not know."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.settings import CHECKOUT

PYTHON = f"""\
#!{sys.executable}
import json, sys

assert sys.argv[1:3] == ["-m", "flows"]
print(json.dumps(sys.argv[3:]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an installed environment whose Python prints the arguments of `bidaflow`."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "constraints.txt").touch()
    script = tmp_path / ".venv" / "bin" / "python"
    script.parent.mkdir(parents=True)
    script.write_text(PYTHON, encoding="utf-8")
    script.chmod(0o755)
    (tmp_path / ".venv" / ".installed").touch()
    return tmp_path


# A Python of another version, which creates no environment.
INTERPRETER = f"""\
#!/bin/sh
[ "$1" = -c ] || exit 7
exec {sys.executable} -c "import sys; sys.version_info = ({{version}}, 0); $2"
"""


def make(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the Makefile in this folder, outside any other run of make."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(
        ["make", "-f", str(CHECKOUT / "Makefile"), "--no-print-directory", *words],
        cwd=folder,
        env=kept | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def arguments(folder: Path, *words: str, **variables: str) -> list[str]:
    """The arguments with which make calls `bidaflow`."""
    done = make(folder, *words, **variables)
    assert done.returncode == 0, done.stderr
    result: list[str] = json.loads(done.stdout)
    return result


def refused(folder: Path, *words: str) -> str:
    """The error message of make, which runs nothing."""
    done = make(folder, *words)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def test_retrain_needs_no_variables(folder: Path) -> None:
    assert arguments(folder, "retrain") == ["retrain"]


def test_each_variable_becomes_an_option(folder: Path) -> None:
    options = {
        "DATASET": "--data.dataset",
        "TRAIN": "--data.train-files",
        "DEV": "--data.dev-files",
        "VARIANTS": "--variants",
        "EPOCHS": "--training.epochs",
        "METHOD": "--vectors.source",
        "CORPUS": "--vectors.corpus-files",
    }
    typed = [f"{name}=of {name}" for name in options]
    expected = [word for name, option in options.items() for word in (option, f"of {name}")]
    assert arguments(folder, "retrain", *typed) == ["retrain", *expected]
    assert arguments(folder, "retrain", "VECTORS=a.txt")[1:] == ["--vectors.source", "a.txt"]


@pytest.mark.parametrize(
    "value",
    [
        "my questions",
        """it's "quoted".json""",
        "$HOME/$$/$(HOME)/${HOME}.json",
        "`id`; id & id | id > id # \\",
        "*.json",
        "s3://bucket/a?b=c&d=e",
        "frågor.json",
    ],
)
def test_values_arrive_whole(folder: Path, value: str) -> None:
    expected = ["retrain", "--data.dataset", value]
    assert arguments(folder, "retrain", f"DATASET={value}") == expected
    assert arguments(folder, "retrain", DATASET=value) == expected


def test_args_are_words_of_the_shell(folder: Path) -> None:
    words = arguments(folder, "retrain", """ARGS=--no-x --data.train-files '["a, b.json"]'""")
    assert words == ["retrain", "--no-x", "--data.train-files", '["a, b.json"]']


@pytest.mark.parametrize("target", ["up", "down"])
def test_services_are_started_and_stopped(folder: Path, target: str) -> None:
    assert arguments(folder, target) == [target]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["EPOCH=0", "retrain"], "make retrain does not take EPOCH=. It takes PYTHON= DATASET= "),
        (["retrain", "VENV=x"], "make retrain does not take VENV=. It takes PYTHON= DATASET= "),
        (["retrain", "SEEDS=0,1"], "VARIANTS= EPOCHS= VECTORS= METHOD= CORPUS= ARGS=."),
        (["test", "EPOCHS=1"], "make test does not take EPOCHS=. It takes PYTHON=."),
        (["test", "SELECT=-x"], "make test does not take SELECT=. It takes PYTHON=."),
        (["DATASET=tiny"], "make help does not take DATASET=. It takes PYTHON=."),
        (["retrain", "VECTORS=a", "METHOD=glove"], "VECTORS= and METHOD= both choose"),
    ],
)
def test_unknown_variables_are_refused(folder: Path, words: list[str], message: str) -> None:
    assert message in refused(folder, *words)


@pytest.mark.parametrize(
    ("version", "supported"),
    [("3, 10", False), ("3, 11", True), ("3, 13", True), ("3, 14", False)],
)
def test_unsupported_python_is_refused(folder: Path, version: str, supported: bool) -> None:
    (folder / ".venv" / ".installed").unlink()
    python = folder / "python"
    python.write_text(INTERPRETER.format(version=version), encoding="utf-8")
    python.chmod(0o755)
    done = make(folder, "install", f"PYTHON={python}")
    assert ("Installing the environment" in done.stdout) == supported
    message = "bidaflow needs Python 3.11 to 3.13. Run: make install PYTHON=python3.13"
    assert (message in done.stderr) == (not supported)


def test_help_lists_targets_and_variables(folder: Path) -> None:
    done = make(folder)
    targets = [line.split()[0] for line in done.stdout.splitlines() if line][:-2]
    expected = ["help", "install", "retrain", "test", "test-all", "quick", "lint", "up", "down"]
    assert targets == [*expected, "clean"]
    assert "retrain takes DATASET= TRAIN= " in done.stdout and "bidaflow --help" in done.stdout
