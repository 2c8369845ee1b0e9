"""The store at the storage root's address."""

import pytest

from infra.errors import UserError
from infra.storage.store import checkpoint_storage
from tests.factories.object_store import ObjectStore


@pytest.mark.parametrize("name", ["checkpoint_1/../../state.json", "a\\..\\x"])
def test_checkpoints_with_unsafe_names_are_refused(store: ObjectStore, name: str) -> None:
    """Ray would write them outside of the folder to which it copies a checkpoint."""
    checkpoints = checkpoint_storage()
    checkpoints.listed("key")
    store.put(f"{store.root}/ray/key/checkpoint_1/state.json", b"")
    checkpoints.listed("key")
    store.put(f"{store.root}/ray/key/{name}", b"")
    with pytest.raises(UserError, match="/ray/key has a file or folder named"):
        checkpoints.listed("key")
