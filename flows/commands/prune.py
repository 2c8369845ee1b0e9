"""List data that no kept run uses; with --yes, remove it.

python -m flows.commands.prune --yes
"""

import argparse
import sys

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from infra.errors import UserError
from infra.settings import settings
from tasks.tracking.garbage_collection import Garbage, find_garbage, prune


def garbage_table(garbage: list[Garbage], title: str) -> Table:
    """A table of the garbage: path, size, and why it can be removed or that it is in use."""
    table = Table(title=title, show_footer=True)
    sizes = [item.bytes for item in garbage]
    table.add_column("path", footer=f"total: {len(garbage)}", overflow="fold")
    table.add_column("size", footer=decimal(sum(sizes)), justify="right")
    table.add_column("reason")
    root = settings().root.resolve()
    for item, size in zip(garbage, sizes, strict=True):
        reason = "in use; not removed now" if item.in_use else item.reason
        table.add_row(str(item.path.relative_to(root)), decimal(size), reason)
    return table


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m flows.commands.prune", description=__doc__)
    parser.add_argument("--yes", action="store_true", help="remove the listed data")
    remove = parser.parse_args(arguments).yes
    console, uri = Console(), settings().tracking_uri
    try:
        garbage = find_garbage(uri)
        if not garbage:
            console.print("Nothing to prune: all data belongs to kept runs.")
            return
        console.print(garbage_table(garbage, "Data to prune"))
        if remove:
            console.print(f"Removed {len(prune(uri))} of {len(garbage)}.")
        else:
            console.print("Nothing was removed. To remove the listed data, run: make prune YES=1")
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
