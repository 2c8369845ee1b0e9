"""The free space on the disk of the storage root."""

import shutil

from infra.errors import UserError
from infra.settings import settings

# Stages and checkpoints of small data fit; larger data fail later, with the same remedy.
MIN_FREE_BYTES = 200 * 10**6


def free_bytes() -> int:
    """Bytes that are free on the disk of the storage root, which may not exist yet."""
    root = settings().root.resolve()
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    return shutil.disk_usage(existing).free


def require_free_space() -> None:
    """Check that the disk of the storage root is not full.

    Raises:
        UserError: it is.
    """
    free = free_bytes()
    if free < MIN_FREE_BYTES:
        raise UserError(
            f"The disk of {settings().root.resolve()} has {free / 10**6:.0f} MB left. Free some "
            "space, for example by `bidaflow prune --yes`, and run the same command again."
        )
