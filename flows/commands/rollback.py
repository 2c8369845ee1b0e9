"""Command `rollback`: make the previous champion the champion again.

Usage: python -m flows.commands.rollback DATASET
"""

import sys

from flows.common.data_files import dataset_name
from infra.artifacts.locks import exclusive_lock
from infra.errors import UserError
from infra.settings import settings
from tasks.tracking import registry


def rollback(dataset: str) -> str:
    """Swap a dataset's champion and its previous champion, and return a message that says so.

    `dataset` is a name or a path, as for `retrain`.

    Raises:
        UserError: there is no previous champion.
    """
    name = f"bidaf-{dataset_name(dataset)}"
    lock = settings().root.resolve() / "locks" / f"promotion-{name}"
    with exclusive_lock(lock, on_wait=lambda: None):
        restored, replaced = registry.rollback(settings().tracking_uri, name)
    message = f"Version {restored.version} of {name} is the champion again"
    if replaced is None:
        return f"{message}."
    return f"{message}; version {replaced.version} is now the previous champion."


if __name__ == "__main__":
    try:
        print(rollback(sys.argv[1]))
    except UserError as error:
        sys.exit(str(error))
