"""Make the previous champion the champion again."""

from typing import Annotated

from cyclopts import Parameter

from infra.artifacts.locks import exclusive_lock
from infra.settings import settings
from tasks.datasets.paths import dataset_name
from tasks.tracking import registry


def rollback(
    dataset: Annotated[str, Parameter(help="Dataset of the champion: a name or path.")] = "tiny", /
) -> None:
    """Make the previous champion of a dataset the champion again, and print its version.

    Raises:
        UserError: there is no previous champion.
    """
    name = f"bidaf-{dataset_name(dataset)}"
    lock = settings().root.resolve() / "locks" / f"promotion-{name}"
    with exclusive_lock(lock, on_wait=lambda: None):
        restored, replaced = registry.rollback(settings().tracking_uri, name)
    message = f"Version {restored.version} of {name} is the champion again"
    if replaced is not None:
        message += f"; version {replaced.version} is now the previous champion"
    print(f"{message}.")
