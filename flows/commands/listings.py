"""List the datasets and lexical resources that are known by name, and the variants of the model."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.filesize import decimal
from rich.table import Column

from flows.commands.terminal import fitted, open_console, show, table
from flows.common.presets import find_preset, known_presets
from infra.errors import UserError, did_you_mean
from models.configs.variant import VariantConfig
from tasks.datasets.catalog import DATASETS, LEXICAL_RESOURCES, CatalogEntry
from tasks.datasets.fetch import AVAILABILITIES, Source, availability

KNOWN: dict[str, CatalogEntry] = {**DATASETS, **LEXICAL_RESOURCES}
COLUMNS: dict[str, Callable[[VariantConfig], object]] = {
    "words": lambda config: "yes" if config.model.word_vectors else "no",
    "characters": lambda config: config.model.characters.size if config.model.characters else "no",
    "ELMo": lambda config: config.model.contextual.where if config.model.contextual else "no",
    "attention": lambda config: config.model.self_attention,
    "hidden": lambda config: config.model.hidden_size,
    "batch": lambda config: config.training.batch_size,
    "epochs": lambda config: config.training.epochs,
}
STYLE = {"box": SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}


def datasets(
    names: Annotated[
        tuple[str, ...],
        Parameter(
            help="Show the licence and the files of these datasets, corpora or vectors, as JSON.",
            metavar="NAME",
        ),
    ] = (),
    /,
) -> None:
    """List the known datasets, corpora and vectors, and whether they are downloaded.

    Raises:
        UserError: a name is unknown.
    """
    console = open_console()
    for name in names:
        console.print_json(_entry(name).model_dump_json(exclude_defaults=True))
    if names:
        return
    columns = (
        Column("name", no_wrap=True),
        Column("contents", no_wrap=True),
        Column("size", justify="right"),
        Column("files"),
    )
    rows = [(entry.name, entry.contents, *_summary(entry.sources)) for entry in KNOWN.values()]
    console.print(fitted(table(columns, rows, **STYLE), console))
    show("Details    bidaflow datasets NAME")


def _entry(name: str) -> CatalogEntry:
    if name not in KNOWN:
        raise UserError(
            f"Unknown dataset {name!r}.{did_you_mean(name, KNOWN)} `bidaflow datasets` lists the "
            "known ones; files and folders need no entry."
        )
    return KNOWN[name]


def _summary(sources: Sequence[Source]) -> tuple[str, str]:
    """The size of all files, and the availability of the one that is hardest to get."""
    if not sources:
        return "", "generated"
    sizes = [source.bytes for source in sources if source.bytes]
    size = decimal(sum(sizes)) if len(sizes) == len(sources) else "unknown"
    return size, max(map(availability, sources), key=AVAILABILITIES.index)


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
    console = open_console()
    for name in names:
        console.print_json(data=asdict(find_preset(name)))
    if names:
        return
    rows = [
        (name, *(str(value(config)) for value in COLUMNS.values()))
        for name, config in known_presets().items()
    ]
    first = Column("variant", no_wrap=True)
    columns = [first, *(Column(title, justify="right") for title in COLUMNS)]
    console.print(fitted(table(columns, rows, **STYLE), console))
    show("Details    bidaflow variants NAME")
