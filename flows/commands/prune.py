"""Remove what no kept run refers to; without --yes, only list it.

python -m flows.commands.prune --yes
"""

import argparse
import sys

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from infra.errors import UserError
from infra.settings import settings
from tasks.tracking.garbage_collection import Leftover, leftovers, prune


def table_of(found: list[Leftover], title: str) -> Table:
    """A table of the leftovers: path, size, and why each can be removed or that it is in use."""
    table = Table(title=title, show_footer=True)
    sizes = [each.bytes for each in found]
    table.add_column("what", footer=f"{len(found)} in all", overflow="fold")
    table.add_column("size", footer=decimal(sum(sizes)), justify="right")
    table.add_column("why")
    root = settings().root.resolve()
    for each, size in zip(found, sizes, strict=True):
        why = "in use, stays for now" if each.in_use else each.why
        table.add_row(str(each.path.relative_to(root)), decimal(size), why)
    return table


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m flows.commands.prune", description=__doc__)
    parser.add_argument("--yes", action="store_true", help="remove it")
    sure = parser.parse_args(arguments).yes
    console, uri = Console(), settings().tracking_uri
    try:
        found = leftovers(uri)
        if not found:
            console.print("Nothing to prune: everything belongs to a run that is kept.")
            return
        console.print(table_of(found, "Can go"))
        if sure:
            console.print(f"Removed {len(prune(uri))} of {len(found)}.")
        else:
            console.print("Nothing was removed. make prune YES=1 removes what is listed.")
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
