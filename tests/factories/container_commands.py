"""Parses commands of containers with the programs that they name, without running them."""

from collections.abc import Sequence

import click
from mlflow.cli import cli as mlflow_cli
from prefect.cli._app import _app as prefect_app
from ray.scripts.scripts import cli as ray_cli

from flows.__main__ import build_app
from infra.settings import CHECKOUT

SCRIPTS = {"with-secrets", "join-ray"}
"""Those of the image that run the command that follows."""
FOREIGN = {"weed", "wget", "pg_isready", "pg_dumpall"}
"""Programs of other images."""


def require_valid(command: Sequence[str]) -> str:
    """Check that a program of the image accepts its subcommand and options; returns its name.

    Raises:
        Exception: it does not accept them; each program has its own error.
    """
    program, *words = command
    if program in SCRIPTS:
        assert (CHECKOUT / "infra" / "image" / program).is_file()
        return require_valid(words)
    if program == "python":
        flag, source = words
        assert flag == "-c"
        compile(source, "command", "exec")
    elif program == "responds":
        (url,) = words
        assert url.startswith("http://127.0.0.1:")
    elif program == "bidaflow":
        build_app().parse_args(words, exit_on_error=False, print_error=False)
    elif program == "prefect":
        prefect_app.parse_args(words, exit_on_error=False, print_error=False)
    elif program in ("mlflow", "ray"):
        _parse(mlflow_cli if program == "mlflow" else ray_cli, words)
    else:
        raise ValueError(f"{program} is no program of the image")
    return program


def _parse(group: click.Command, words: list[str]) -> None:
    while isinstance(group, click.Group):
        name, *words = words
        command = group.get_command(click.Context(group), name)
        if command is None:
            raise click.UsageError(f"no command {name}")
        group = command
    group.make_context(group.name, words)
