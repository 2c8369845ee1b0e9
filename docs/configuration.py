"""Writes docs/configuration.md: the environment variables, and every option of the commands.

    python docs/configuration.py

A test fails if the page is out of date.
"""

from collections.abc import Iterator
from pathlib import Path

from flows.check import check
from flows.commands.flow_command import Option, options_of
from flows.compare_variants import compare_variants
from flows.evaluate_embeddings import evaluate_embeddings
from flows.evaluate_model import evaluate_model
from flows.ingest import ingest
from flows.retrain import retrain
from flows.train import train
from flows.train_embeddings import train_embeddings
from infra.settings import CHECKOUT, Settings, variable_of

PAGE = Path(__file__).with_suffix(".md")
INTRODUCTION = """\
# Configuration

<!-- Written by docs/configuration.py. -->

Options of a run are on its command line, or in its form in Prefect; settings of an installation are
environment variables.

## Environment variables
"""
FLOWS = {
    "retrain": retrain,
    "train": train,
    "ingest": ingest,
    "check": check,
    "evaluate": evaluate_model,
    "compare": compare_variants,
    "embeddings train": train_embeddings,
    "embeddings evaluate": evaluate_embeddings,
}


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
    commands: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for command, flow in FLOWS.items():
        sections: dict[str, list[str]] = {}
        for option in options_of(flow):
            sections.setdefault(option.section.name, []).append(_option(option))
        for title, rows in sections.items():
            commands.setdefault((title, tuple(rows)), []).append(command)
    for (title, options), names in commands.items():
        yield f"\n## {title}: {', '.join(f'`{name}`' for name in names)}\n"
        yield from _table("option", "default", "meaning")
        yield from options


def _option(option: Option) -> str:
    return _row(f"`{option.flag}`", _code(option.default or ""), option.help)


def _code(value: str) -> str:
    return value and f"`{value}`"


def _table(*columns: str) -> Iterator[str]:
    yield _row(*columns)
    yield _row(*["---"] * len(columns))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
