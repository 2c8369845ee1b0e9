"""List data that no kept run uses, or remove it."""

from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

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


def prune_data(
    *,
    yes: Annotated[bool, Parameter(help="Remove the listed data.", negative=())] = False,
) -> None:
    """List the data that no kept run uses; with --yes, remove it."""
    console, uri = Console(), settings().tracking_uri
    garbage = find_garbage(uri)
    if not garbage:
        console.print("Nothing to prune: all data belongs to kept runs.")
        return
    console.print(garbage_table(garbage, "Data to prune"))
    if yes:
        console.print(f"Removed {len(prune(uri))} of {len(garbage)}.")
    else:
        console.print("Nothing was removed. To remove the listed data, run: bidaflow prune --yes")
