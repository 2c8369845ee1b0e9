"""List datasets and lexical resources known by name, and where their files are."""

from itertools import chain

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from infra.progress import megabytes
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
