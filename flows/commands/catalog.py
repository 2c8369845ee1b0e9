"""List what is known by name: datasets, corpora and vectors, and the variants of the model."""

from collections.abc import Callable
from itertools import chain

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from flows.commands.terminal import table
from infra.progress import megabytes
from models.configs.presets import PRESETS
from models.configs.variant import VariantConfig
from tasks.datasets.catalog import DATASETS, LEXICAL_RESOURCES, CatalogEntry
from tasks.datasets.fetch import availability


def datasets() -> None:
    """List the known datasets, corpora and vectors, and whether they are downloaded."""
    Console().print(*map(_block, chain(DATASETS.values(), LEXICAL_RESOURCES.values())))


def _block(entry: CatalogEntry) -> Group:
    """The entry's description, licence and citation, and each file's size and location."""
    about = Text(f"{entry.about} ({entry.licence})")
    if entry.citation:
        about.append(f"\n{entry.citation}", "dim")
    files = Table.grid("file", Column("size", justify="right"), "availability", padding=(0, 2))
    for source in entry.sources:
        size = megabytes(source.bytes) if source.bytes else "size unknown"
        files.add_row(source.name, size, availability(source))
    if not entry.sources:
        files.add_row("generated")
    return Group(
        Text(entry.name, "bold"), *(Padding(part, (0, 0, 0, 4)) for part in (about, files))
    )


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
