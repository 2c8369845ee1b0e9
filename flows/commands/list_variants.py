"""List the variants of the model and the fields in which they differ."""

from collections.abc import Callable
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
        Parameter(help="Show all settings of these variants, as JSON.", metavar="NAME"),
    ] = (),
    /,
) -> None:
    """List the variants and their main settings; `bidaflow retrain --help` explains all fields.

    Raises:
        UserError: a name is unknown.
    """
    for name in names:
        Console().print_json(data=asdict(find_preset(name)))
    if names:
        return
    rows = [
        (name, *(str(value(config)) for value in COLUMNS.values()))
        for name, config in known_presets().items()
    ]
    first = Column("variant", no_wrap=True)
    columns = [first, *(Column(title, justify="right") for title in COLUMNS)]
    style = {"box": SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}
    Console().print(table(columns, rows, **style))
    show("Details    bidaflow variants NAME")
