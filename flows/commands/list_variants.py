"""List the variants of the model and the fields in which they differ."""

from collections.abc import Callable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column

from flows.commands.terminal import table
from models.configs.presets import PRESETS
from models.configs.variant import VariantConfig

COLUMNS: dict[str, Callable[[VariantConfig], object]] = {
    "words": lambda config: "yes" if config.model.word_vectors else "no",
    "characters": lambda config: config.model.characters.size if config.model.characters else "no",
    "attention": lambda config: config.model.self_attention,
    "hidden": lambda config: config.model.hidden_size,
    "batch": lambda config: config.training.batch_size,
    "epochs": lambda config: config.training.epochs,
}


def variants() -> None:
    """List the variants and their main settings; `bidaflow retrain --help` names all fields."""
    columns = [
        Column("variant", no_wrap=True),
        *(Column(title, justify="right") for title in COLUMNS),
    ]
    rows = [
        (name, *(str(value(config)) for value in COLUMNS.values()))
        for name, config in PRESETS.items()
    ]
    Console().print(table(columns, rows, box=SIMPLE_HEAD, padding=(0, 1, 0, 0)))
