"""List the variants of the model and the fields in which they differ."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column

from flows.commands.terminal import show, table
from flows.common.presets import find_preset, known_presets
from models.configs.variant import VariantConfig

COLUMNS: dict[str, Callable[[VariantConfig], object]] = {
    "words": lambda config: "yes" if config.model.word_vectors else "no",
    "characters": lambda config: config.model.characters.size if config.model.characters else "no",
    "ELMo": lambda config: config.model.contextual.where if config.model.contextual else "no",
    "attention": lambda config: config.model.self_attention,
    "hidden": lambda config: config.model.hidden_size,
    "batch": lambda config: config.training.batch_size,
    "epochs": lambda config: config.training.epochs,
}


def variants(
    names: Annotated[
        tuple[str, ...],
        Parameter(help="Show all settings of these variants, side by side.", metavar="NAME"),
    ] = (),
    /,
) -> None:
    """List the variants and their main settings; `bidaflow retrain --help` explains all fields.

    Raises:
        UserError: a name is unknown.
    """
    if names:
        settings = [_settings(name) for name in names]
        titles, rows = ["setting", *names], _rows(settings)
    else:
        titles = ["variant", *COLUMNS]
        rows = [
            (name, *(str(value(config)) for value in COLUMNS.values()))
            for name, config in known_presets().items()
        ]
    first, *others = titles
    columns = [Column(first, no_wrap=True), *(Column(title, justify="right") for title in others)]
    style = {"box": SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}
    Console().print(table(columns, rows, **style))
    if not names:
        show("Details    bidaflow variants NAME")


def _settings(name: str) -> dict[str, str]:
    """All settings of a variant, under the names of their options."""
    from tasks.tracking.runs import flatten  # loads pyarrow

    config = asdict(find_preset(name))
    flat = {**flatten(config["model"]), **flatten(config["training"])}
    for group in ("characters", "contextual"):
        flat.pop(group, None)  # None: the variant has none
    return {option.replace("_", "-"): _text(value) for option, value in flat.items()}


def _rows(settings: Sequence[dict[str, str]]) -> list[tuple[str, ...]]:
    """A row per setting; a variant without characters has none of their settings."""
    options = dict.fromkeys(option for values in settings for option in values)
    return [(option, *(values.get(option, "–") for values in settings)) for option in options]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "–" if value is None else str(value)
