"""The image: its Dockerfile, and the install steps, which an account that is not root runs here."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.settings import CHECKOUT
from tests.factories.accounts import give_to_nobody
from tests.factories.dockerfile import after_user, read_stages

FOLDER = CHECKOUT / "infra" / "image"
STAGES = read_stages(FOLDER / "Dockerfile")
ARGUMENTS, INSTALL, FINAL = STAGES
USER = "10001:10001"
INDEX = re.compile(r"--index-url https://download\.pytorch\.org/whl/\S+ ")
"""The one option that the tests leave out: they install torch from where `make install` does."""


def texts(stage: Any, name: str) -> list[str]:
    return [instruction.text for instruction in stage if instruction.name == name]


def test_both_stages_end_as_a_fixed_user() -> None:
    assert [texts(stage, "USER") for stage in (INSTALL, FINAL)] == [[USER], [USER]]
    assert texts(after_user(FINAL), "RUN") == [], "root prepares, and the user only runs"


def test_every_version_is_pinned() -> None:
    (python,) = texts(ARGUMENTS, "ARG")
    assert re.fullmatch(r"PYTHON=3\.11\.\d+-slim-[a-z]+", python)
    assert {text.split()[0] for text in texts(INSTALL + FINAL, "FROM")} == {"python:${PYTHON}"}
    installs = [text for text in texts(INSTALL, "RUN") if "pip install" in text]
    constrained = ("torch==2.13.0", "-c constraints.txt", "--no-deps -e .")
    assert all(want in text for want, text in zip(constrained, installs, strict=True))
    assert "torch==2.13.0" in (CHECKOUT / "constraints.txt").read_text().splitlines()


def test_image_copies_named_files_and_no_secrets() -> None:
    copied = [text.split()[0] for text in texts(INSTALL, "COPY")]
    assert copied == ["pyproject.toml", "prefect.yaml", "flows", "tasks", "models", "infra"]
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    kept = {name.removeprefix("!") for name in ignored[2:-1]}
    assert ignored[1] == "*" and ignored[-1] == "**/__pycache__"
    assert kept == {word for text in texts(INSTALL, "COPY") for word in text.split()[:-1]}
    text = (FOLDER / "Dockerfile").read_text()
    assert not re.search(r"password|token|secret(?!s)|_key|:latest", text, re.IGNORECASE)


def test_secrets_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "password").write_text('it\'s a $HOME "secret"\n')
    command = [FOLDER / "with-secrets", "sh", "-c", 'printf %s "$PASSWORD,${PASSWORD_FILE-unset}"']
    environment = {"PASSWORD_FILE": f"{tmp_path}/secrets/password", "PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == 'it\'s a $HOME "secret",unset'
    token = tmp_path / "secrets" / "eks" / "token"  # the token of a role, which its library reads
    environment |= {"AWS_WEB_IDENTITY_TOKEN_FILE": str(token)}
    assert subprocess.run(command, env=environment, check=False).returncode == 0
    environment["PASSWORD_FILE"] += ".missing"
    assert subprocess.run(command, env=environment, capture_output=True, check=False).returncode


def interpreter(account: dict[str, Any]) -> str:
    """A Python from 3.11 that the account can run."""
    program = "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"
    for candidate in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        try:
            if not subprocess.run([candidate, "-c", program], check=False, **account).returncode:
                return candidate
        except PermissionError:
            continue
    pytest.skip("needs a Python that other users can run; install python3-venv")


@pytest.fixture(scope="module")
def prefix() -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folder in which the install steps of the Dockerfile ran, and the account that ran them.

    The steps before USER are left out: root creates the folder, which exists here.
    """
    with tempfile.TemporaryDirectory(prefix="bidaflow-image-") as folder:
        prefix, home = Path(folder, "bidaflow"), Path(folder, "home")
        account = give_to_nobody(Path(folder))
        for path in (prefix, home, Path(folder, "bin")):
            path.mkdir()
            give_to_nobody(path)
        Path(folder, "bin", "python").symlink_to(interpreter(account))
        environment = {
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "DEVICE": "cpu",
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
        }
        for name, text in after_user(INSTALL):
            if name == "ENV":
                environment |= dict(pair.split("=", 1) for pair in text.split())
                environment |= {"HOME": str(home), "TMPDIR": str(home)}
            elif name == "COPY":
                *sources, target = text.split()
                for source in sources:
                    copy(CHECKOUT / source, prefix / target, account)
            elif name == "RUN":
                run(INDEX.sub("", text), prefix, environment, account)
        yield prefix, account


def copy(source: Path, target: Path, account: dict[str, Any]) -> None:
    """Copy a file into a folder, or a folder as the target, as COPY does."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)
    if account:
        subprocess.run(["chown", "-R", f"{account['user']}", target], check=True)


def run(command: str, folder: Path, environment: dict[str, str], account: dict[str, Any]) -> str:
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        **account,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.full
@pytest.mark.heavy
def test_install_steps_run_as_another_user(prefix: tuple[Path, dict[str, Any]]) -> None:
    """The programs of all roles start, with the pinned versions."""
    folder, account = prefix
    environment = {"PATH": f"{folder}/.venv/bin:{folder}/infra/image:{os.environ['PATH']}"}
    environment |= {"HOME": str(folder.parent / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    for command in ("bidaflow --help", "prefect version", "mlflow --version", "ray --version"):
        assert run(f"with-secrets {command}", folder, environment, account)
    run("pip check", folder, environment, account)
    pins = (CHECKOUT / "constraints.txt").read_text().splitlines()[1:]
    installed = run("pip freeze --exclude-editable", folder, environment, account).splitlines()
    versions = [re.sub(r"\+cpu| @ .*(==.*)", "", line) for line in installed]
    assert [line for line in versions if line not in pins] == []
    assert (
        run("python -c 'import prefect_kubernetes, psycopg, boto3'", folder, environment, account)
        == ""
    )
