"""The commands in the documentation parse: their names, options and values are valid."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from string import Template

import pytest
from rich.console import Console

from flows.__main__ import COMMANDS, EMBEDDINGS, build_app
from infra.settings import CHECKOUT
from tasks.embeddings.formats.source import VECTORS
from tests.factories.documents import BLOCK, shell_lines

APP = build_app()
SPAN = re.compile(r"`((?:make|bidaflow) [^`]+)`")
OPTION = re.compile(r"`(--[a-z][\w.-]*)[^`]*`")
PLACEHOLDERS = ("…", "<", "COMMAND", "QUESTION", "FILE")
"""A command that contains one of these is not complete, so it is not parsed."""
MENTIONS = ("bidaflow ask", "bidaflow diff", "bidaflow promote")
"""The text names these commands without the arguments that they require."""
TRAINED_SETS = ("support", "wiki", "medquad", "general")
"""The sets of word vectors that the text trains and then names."""
OPTIONS_OF_MLFLOW = {"--allowed-hosts", "--no-serve-artifacts"}
PAGES = [
    CHECKOUT / "README.md",
    CHECKOUT / "CONTRIBUTING.md",
    *(CHECKOUT / "docs").glob("*.md"),
]


def commands(program: str) -> list[str]:
    """All complete commands of a program in the shell blocks and code spans of the documents."""
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    typed = dict.fromkeys(command for text in texts for command in _commands(text))
    return [
        command
        for command in typed
        if command.split()[0] == program
        and command not in MENTIONS
        and not any(name in command for name in PLACEHOLDERS)
    ]


def _commands(text: str) -> Iterator[str]:
    for line in shell_lines(text):
        words = shlex.split(line, comments=True)
        if words:
            yield shlex.join(words)
    yield from SPAN.findall(BLOCK.sub("", text))


def require_valid(command: str) -> None:
    """Parse a `bidaflow` command without running it.

    Raises:
        CycloptsError: the command or an option does not exist, or a value is invalid.
    """
    APP.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)


@pytest.fixture(scope="module")
def options() -> set[str]:
    """The options of all commands, and their groups, such as --vectors.corpus."""
    names = [[name] for group in COMMANDS.values() for name in group]
    words: set[str] = set()
    for command in [[], *names, *(["embeddings", name] for name in EMBEDDINGS)]:
        console = Console(width=1000, file=StringIO())
        APP.help_print(command, console=console)
        assert isinstance(console.file, StringIO)
        for line in console.file.getvalue().splitlines():
            first_column, *_ = re.split(r" {2,}", line.strip("│* "))
            words.update(re.findall(r"--[a-z][\w.-]*", first_column))
    groups = {word.rsplit(".", n)[0] for word in words for n in range(1, word.count(".") + 1)}
    return words | groups


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_in_the_text_exist(page: Path, options: set[str]) -> None:
    named = OPTION.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))
    assert set(named) - options <= OPTIONS_OF_MLFLOW


@pytest.mark.parametrize("command", commands("bidaflow"))
def test_bidaflow_command_is_valid(command: str, root: Path) -> None:
    for name in TRAINED_SETS:
        (root / "embeddings" / name).mkdir(parents=True)
        (root / "embeddings" / name / VECTORS).touch()
    require_valid(command)


@pytest.mark.parametrize("command", commands("make"))
def test_make_command_is_valid(command: str) -> None:
    """Targets and variables exist, and what `make retrain` would run is valid."""
    _, *words = shlex.split(command)
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", *words],
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if words[0] == "retrain":
        variables = dict(word.split("=", 1) for word in words[1:])
        last = Template(done.stdout.strip().splitlines()[-1]).substitute(variables)
        require_valid(last.replace("python -m flows", "bidaflow"))


def test_every_program_has_commands() -> None:
    assert len(commands("bidaflow")) > 30
    assert len(commands("make")) > 3
