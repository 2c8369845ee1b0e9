"""`make datasets`: what is known by name, and what of it is here."""

from itertools import chain

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tasks.catalogue import DATASETS, Entry
from tasks.fetching import Source, whereabouts
from tasks.transfer import megabytes
from tasks.word_data import COLLECTIONS


def known() -> Table:
    """A row for each known entry: what it is, its size and licence, and where it is."""
    table = Table(title="Known by name", show_lines=True)
    for title in ("name", "what", "size", "licence", "file", "where"):
        table.add_column(title, justify="right" if title == "size" else "left")
    for entry in chain(DATASETS.values(), COLLECTIONS.values()):
        table.add_row(entry.name, _about(entry), *_files(entry))
    return table


def _about(entry: Entry) -> Text:
    text = Text(entry.about)
    return text.append(f"\n{entry.citation}", "dim") if entry.citation else text


def _files(entry: Entry) -> tuple[str, str, str, str]:
    if not entry.sources:
        return "", entry.licence, "", "generated"
    sizes, names, places = zip(*map(_file, entry.sources), strict=True)
    return "\n".join(sizes), entry.licence, "\n".join(names), "\n".join(places)


def _file(source: Source) -> tuple[str, str, str]:
    size = megabytes(source.bytes) if source.bytes else "unknown"
    return size, source.name, whereabouts(source)


if __name__ == "__main__":
    Console().print(known())
