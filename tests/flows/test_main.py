"""The command line `bidaflow`: its commands, their help, and errors in the arguments."""

import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from flows.__main__ import COMMANDS, EMBEDDINGS, build_app, main, run_command
from tests.factories.cli import bidaflow

APP = build_app()
ALL_COMMANDS = [
    [],
    *([name] for commands in COMMANDS.values() for name in commands),
    ["embeddings"],
    *(["embeddings", name] for name in EMBEDDINGS),
]
BORDERS = "│╭╮╰╯─"


def help_text(command: list[str], width: int) -> str:
    console = Console(width=width, file=StringIO())
    APP.help_print(command, console=console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def words(text: str) -> list[str]:
    """All words, sorted, because columns break them into other lines."""
    return sorted(text.translate(str.maketrans(dict.fromkeys(BORDERS, " "))).split())


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=" ".join)
def test_help_fits_in_80_columns(command: list[str]) -> None:
    narrow, wide = help_text(command, 80), help_text(command, 1000)
    assert max(map(cell_len, narrow.splitlines())) <= 80
    assert words(narrow) == words(wide), "nothing is cut off, and no word is broken"


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=" ".join)
def test_help_describes_every_option(command: list[str]) -> None:
    rows = [
        line.strip("│* ")
        for line in help_text(command, 1000).splitlines()
        if re.match(r"│ [* ]*(--?[a-z]|[A-Z]{3,}|[a-z]+ {2,})", line)
    ]
    for row in rows:
        _, description = re.split(r" {2,}", row, maxsplit=1)
        assert re.match(r"\w", description), row


def test_help_lists_every_command_in_order() -> None:
    shown = re.findall(r"^│ ([a-z]+) {2,}\w", help_text([], 80), re.MULTILINE)
    (pipeline, *others) = ([*commands] for commands in COMMANDS.values())
    assert shown == [*pipeline, "embeddings", *(name for names in others for name in names)]


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("retran", 'Unknown command "retran". Did you mean "retrain"?'),
        ("embeddings evalute", 'Did you mean "evaluate"?'),
        ("retrain --data.datset x", "--data.datset. Did you mean --data.dataset?"),
        ("prune --yse", "--yse. Did you mean --yes?"),
        ("retrain stray", "Unexpected argument: stray. --help lists all options."),
        ("prune --yes all", "Unexpected argument: all. --help lists all options."),
        ("ask Who? --top 0", 'Invalid value "0" for --top. Must be >= 1.'),
        ("diff champion", "SECOND requires an argument"),
        ("retrain --training.epochs 0", "--training.epochs 0: at least 1."),
    ],
)
def test_wrong_arguments_get_a_suggestion(
    typed: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_command(typed.split())
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert message in printed and printed.count("\n") == 1 and "https" not in printed


def test_every_wrong_value_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {
        "--data.seed -3": "at least 0",
        "--data.dev-share 1": "below 1",
        "--variants cahr": "unknown variant; expected one of: baseline, char, ",
        "--training.epochs many": "a whole number",
        "--training.dropout nan": "a finite number",
        "--training.precision half": "'float32' or 'bfloat16'",
        "--vectors.dimension 5000": "at most 2000",
        "--resources.workers 0": "at least 1",
        "--promotion.min-gain -1": "at least 0",
    }
    with pytest.raises(SystemExit) as ended:
        run_command(["retrain", *" ".join(wrong).split()])
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    lines = sorted(printed.err.splitlines())
    assert len(lines) == len(wrong)
    for line, (option, allowed) in zip(lines, sorted(wrong.items()), strict=True):
        assert line.startswith(f"{option}: {allowed}") and line.endswith(".")
        assert "Input should" not in line and "http" not in line


def test_user_error_ends_with_its_message(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bidaflow", "rollback", "nothing"])
    with pytest.raises(SystemExit, match=r"^\nbidaf-nothing has no previous champion to roll back"):
        main()


@pytest.mark.heavy
def test_server_that_does_not_start_ends_the_command(root: Path) -> None:
    database = {"PREFECT_SERVER_DATABASE_CONNECTION_URL": "sqlite+aiosqlite:////missing/a.db"}
    done = bidaflow(root, "ingest", **database)
    assert (done.returncode, done.stdout) == (1, "")
    log = root / "logs" / "temporary-prefect.log"
    assert "temporary-prefect" in done.stderr and done.stderr.rstrip().endswith(f"log: {log}")
    assert "unable to open database file" in log.read_text(encoding="utf-8")
