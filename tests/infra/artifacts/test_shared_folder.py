"""Folders that machines share: what one writes, removes or replaces, the others see."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from infra.artifacts.in_use import stages_of_newest_runs
from infra.artifacts.shared_folder import (
    local_path,
    pull,
    remove_shared,
    shared_folder,
)
from infra.errors import UserError
from infra.settings import settings
from infra.storage.store import Store, checkpoint_storage, shown_path
from tests.factories.logs import watched_log
from tests.factories.object_store import ObjectStore
from tests.factories.stages import in_flow

pytestmark = pytest.mark.usefixtures("store")


def folder() -> Path:
    return settings().root / "reports"


def write(**texts: str) -> None:
    with shared_folder(folder()):
        for name, text in texts.items():
            (folder() / name).parent.mkdir(parents=True, exist_ok=True)
            (folder() / name).write_text(text)


def texts() -> dict[str, str]:
    pull(folder())
    return {path.name: path.read_text() for path in folder().iterdir()}


def test_other_machine_sees_new_and_changed_files(other_machine: Callable[[], None]) -> None:
    write(page="one", index="1 page")
    other_machine()
    assert texts() == {"page": "one", "index": "1 page"}
    write(index="2 pages", second="two")
    assert texts() == {"page": "one", "index": "2 pages", "second": "two"}


def test_removed_files_disappear_elsewhere(
    other_machine: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = settings().cache
    write(page="one", other="two")
    other_machine()
    with shared_folder(folder()):
        (folder() / "page").unlink()
    assert texts() == {"other": "two"}
    monkeypatch.setenv("BIDAFLOW_CACHE", str(here))
    assert texts() == {"other": "two"}


def test_unchanged_files_are_not_copied_again(store: ObjectStore) -> None:
    write(page="one", other="two")
    store.requests.clear()
    write(other="three")
    copied = [request for request in store.requests if "page" in request]
    assert copied == []
    assert any(request.startswith("PUT") and "other" in request for request in store.requests)


def test_reader_keeps_files_that_are_being_published() -> None:
    write(page="one")
    reader = Thread(target=pull, args=[folder()])
    with shared_folder(folder()), watched_log("Another run is publishing files") as waiting:
        (folder() / "second").write_text("two")
        reader.start()
        assert waiting.wait(600)
        assert (folder() / "second").exists()
    reader.join()
    assert texts() == {"page": "one", "second": "two"}


@pytest.fixture
def file_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mounted folder as the root's address, in which files are easy to plant."""
    address = tmp_path / "shared"
    address.mkdir()
    monkeypatch.setenv("BIDAFLOW_ROOT", address.as_uri())
    return address


def test_hidden_files_stay_where_they_are(
    file_store: Path, other_machine: Callable[[], None]
) -> None:
    write(**{".unfinished": "half", "page": "one"})
    (file_store / "reports" / ".page.12ab").write_text("half of it")
    other_machine()
    assert texts() == {"page": "one"}


def test_file_may_vanish_while_it_is_copied(
    file_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine removes an old report."""
    write(page="one", old="two")
    (folder() / "old").unlink()
    copy = Store.copy

    def copy_late(store: Store, name: str, target: Store, target_name: str) -> None:
        (file_store / "reports" / "old").unlink(missing_ok=True)
        copy(store, name, target, target_name)

    monkeypatch.setattr(Store, "copy", copy_late)
    assert texts() == {"page": "one"}


def test_sets_are_found_by_address_and_by_path(other_machine: Callable[[], None]) -> None:
    here = settings().root / "embeddings" / "support"
    with shared_folder(here):
        here.mkdir(parents=True)
        (here / "vectors.parquet").write_bytes(b"vectors")
    address = f"{settings().address}/embeddings/support"
    assert shown_path(here / "vectors.parquet") == f"{address}/vectors.parquet"
    other_machine()
    for name in (address, f"{address}/vectors.parquet", str(settings().root / "embeddings")):
        assert local_path(name).is_relative_to(settings().root)
        assert local_path(name).exists()
    assert (local_path(address) / "vectors.parquet").read_bytes() == b"vectors"
    assert local_path("/elsewhere/vectors.parquet") == Path("/elsewhere/vectors.parquet")


def test_files_of_stages_stay_here() -> None:
    """They are at the address under other names, and would be removed here as unknown."""
    file = settings().root / "stages" / "train-embeddings" / "key" / "vectors.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"vectors")
    assert local_path(str(file)).read_bytes() == b"vectors"


def test_removed_folder_is_gone_for_all() -> None:
    write(**{"run/page": "one", "other/page": "two"})
    remove_shared(folder() / "run")
    remove_shared(folder() / "never there")
    pull(folder())
    assert not (folder() / "run" / "page").exists()
    assert (folder() / "other" / "page").read_text() == "two"


@pytest.mark.usefixtures("prefect_server")
def test_newest_runs_of_all_machines_are_known(other_machine: Callable[[], None]) -> None:
    from tests.factories.stages import reading

    file = settings().cache.parent / "words.txt"
    file.write_text("one two")
    used = in_flow(lambda: reading([file]).folder, "words")
    other_machine()
    assert stages_of_newest_runs() == {f"read/{used.name}"}


@pytest.mark.parametrize("name", ["../index.html", "made/../../x", "a\\..\\x", "made//x"])
def test_file_with_an_unsafe_key_is_refused(store: ObjectStore, name: str) -> None:
    write(page="one")
    store.put(f"{store.root}/reports/{name}", b"two")
    with pytest.raises(UserError, match=r"/reports has a file or folder named .* was written"):
        pull(folder())
    files = [path for path in settings().root.rglob("*") if path.is_file()]
    assert [path.name for path in files if "locks" not in path.parts] == ["page"]


def test_folder_with_an_unsafe_key_is_refused(store: ObjectStore) -> None:
    """`bidaflow prune` would remove the checkpoints in the folder that it leads to."""
    store.put(f"{store.root}/ray/../x", b"")
    with pytest.raises(UserError, match=r"/ray has a file or folder named '\.\.'"):
        checkpoint_storage().listed(recursive=False)
