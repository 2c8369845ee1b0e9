"""Remove data that no kept run uses, and change the champion by hand."""

from typing import Annotated

from cyclopts import Parameter
from rich.filesize import decimal
from rich.table import Column, Table

from flows.commands.terminal import fitted, open_console, table
from flows.common.promote import promote_by_hand, roll_back
from infra.settings import settings
from tasks.datasets.paths import dataset_name
from tasks.tracking import registry
from tasks.tracking.client import require_server
from tasks.tracking.garbage_collection import Garbage, find_garbage, prune


def prune_data(
    *,
    yes: Annotated[bool, Parameter(help="Remove the listed data.", negative=())] = False,
    checkpoints: Annotated[
        bool,
        Parameter(
            help="Also the checkpoints of interrupted runs, which would then train from the start.",
            negative=(),
        ),
    ] = False,
) -> None:
    """List the data that no kept run uses; with --yes, remove it."""
    console = open_console()
    garbage = find_garbage(checkpoints)
    if not garbage:
        console.print("Nothing to prune: all data belongs to kept runs.")
        return
    console.print(fitted(_garbage_table(garbage), console))
    if yes:
        console.print(f"Removed {len(prune(checkpoints))} of {len(garbage)}.")
    else:
        console.print("Nothing was removed. To remove the listed data, run: bidaflow prune --yes")


def _garbage_table(garbage: list[Garbage]) -> Table:
    """A table of the garbage: path, size, and why it can be removed or that it is in use."""
    columns = (
        Column("path", footer=f"total: {len(garbage)}", overflow="fold"),
        Column("size", footer=decimal(sum(item.bytes for item in garbage)), justify="right"),
        "reason",
    )
    root = settings().root.resolve()
    rows = [
        (
            str(item.path.relative_to(root)),
            decimal(item.bytes),
            "in use; not removed now" if item.in_use else item.reason,
        )
        for item in garbage
    ]
    return table(columns, rows, title="Data to prune", show_footer=True)


def promote(
    model: Annotated[str, Parameter(help="Version to promote: models:/<name>/<version>.")], /
) -> None:
    """Make a version the champion, and print which version it replaces.

    Raises:
        UserError: there is no such version, or the MLflow server does not respond.
    """
    version = registry.find_version(model)
    before = promote_by_hand(version)
    if before is not None and before.version == version.version:
        print(f"Version {version.version} of {version.name} is the champion already.")
        return
    previous = f"; version {before.version} is now the previous champion" if before else ""
    print(f"Version {version.version} of {version.name} is now the champion{previous}.", flush=True)


def rollback(
    dataset: Annotated[str, Parameter(help="Dataset of the champion: a name or path.")] = "tiny", /
) -> None:
    """Make the previous champion of a dataset the champion again, and print its version.

    Raises:
        UserError: there is no previous champion, or the MLflow server does not respond.
    """
    name = f"bidaf-{dataset_name(dataset)}"
    require_server()
    restored, replaced = roll_back(name)
    other = f", instead of version {replaced.version}" if replaced else ""
    print(f"Version {restored.version} of {name} is the champion again{other}.")
