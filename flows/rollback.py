"""Command `rollback`: the champion of before is the champion again.

Use: python -m flows.rollback DATASET
"""

import sys

from flows.files import name_of
from infra.settings import settings
from tasks import registry
from tasks.errors import UserError
from tasks.locks import exclusive_lock


def rollback(dataset: str) -> str:
    """Exchange the champion of a dataset, named as for `retrain`, and the one before it; says what
    was done.

    Raises:
        UserError: there is none before it.
    """
    name = f"bidaf-{name_of(dataset)}"
    lock = settings().root.resolve() / "locks" / f"promotion-{name}"
    with exclusive_lock(lock, on_wait=lambda: None):
        again, replaced = registry.rollback(settings().tracking_uri, name)
    told = f"The champion of {name} is version {again.version} again"
    return f"{told}; version {replaced.version} is the previous one." if replaced else f"{told}."


if __name__ == "__main__":
    try:
        print(rollback(sys.argv[1]))
    except UserError as error:
        sys.exit(str(error))
