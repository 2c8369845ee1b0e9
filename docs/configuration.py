"""Writes docs/configuration.md: the environment variables, and every option of the commands.

    python docs/configuration.py

A test fails if the page is out of date.
"""

from collections.abc import Iterator
from pathlib import Path

from cyclopts.argument import Argument

from flows.__main__ import build_app
from flows.options import as_typed
from infra.settings import CHECKOUT, Settings, variable_of

PAGE = Path(__file__).with_suffix(".md")
INTRODUCTION = """\
# Configuration

<!-- Written by docs/configuration.py. -->

Options of a run are on its command line, or in its form in Prefect; settings of an installation are
environment variables.

## Environment variables
"""
COMMANDS = (
    "retrain",
    "train",
    "ingest",
    "check",
    "ensemble",
    "evaluate",
    "predict",
    "compare",
    "embeddings train",
    "embeddings evaluate",
)


def page() -> str:
    """The page as Markdown."""
    return "\n".join([INTRODUCTION, *_settings(), *_options()]) + "\n"


def _settings() -> Iterator[str]:
    yield from _table("variable", "default", "meaning")
    for name, field in Settings.model_fields.items():
        default = str(field.default).removeprefix(f"{CHECKOUT}/") if field.default else ""
        yield _row(f"`{variable_of(name)}`", _code(default), field.description or "")
    yield _row("`RAY_ADDRESS`", "", "A Ray cluster. Empty: one is started on this machine.")


def _options() -> Iterator[str]:
    """A table for each section of options, below the names of all commands that have it."""
    app = build_app()
    commands: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for command in COMMANDS:
        sections: dict[str, list[str]] = {}
        _, apps, _ = app.parse_commands(command.split())
        for option in apps[-1].assemble_argument_collection():
            if option.show:
                (section,) = option.parameter.group
                sections.setdefault(section.name, []).append(_option(option))
        for title, rows in sections.items():
            commands.setdefault((title, tuple(rows)), []).append(command)
    for (title, options), names in commands.items():
        yield f"\n## {title}: {', '.join(f'`{name}`' for name in names)}\n"
        yield from _table("option", "default", "meaning")
        yield from options


def _option(option: Argument) -> str:
    choices = ", ".join(option.get_choices() or ())
    meaning = f"{option.parameter.help} [{choices}]" if choices else option.parameter.help or ""
    return _row(f"`{option.name}`", _code(as_typed(option.field_info.default) or ""), meaning)


def _code(value: str) -> str:
    return value and f"`{value}`"


def _table(*columns: str) -> Iterator[str]:
    yield _row(*columns)
    yield _row(*["---"] * len(columns))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
