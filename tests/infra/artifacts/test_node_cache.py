"""Stages on the nodes of a cluster: fetched by key, kept while they are used, then removed if the
cache exceeds its size."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier

import pytest

from infra.artifacts.in_use import use
from infra.artifacts.manifest import MANIFEST, stages_folder, write_manifest
from infra.artifacts.node_cache import evict, fetched, portable
from infra.artifacts.remote import publish
from infra.artifacts.shared_folder import remove_shared
from infra.atomic_files import PRUNED, new_folder
from infra.settings import settings
from tests.factories.object_store import ObjectStore


@dataclass(frozen=True)
class Split:
    ingested: Path
    encoded: Path | None = None


@dataclass(frozen=True)
class Inputs:
    name: str
    train: Split
    start: Path


def stage(name: str, content: str) -> Path:
    """A complete stage, here and in the store."""
    folder = stages_folder() / name / "key"
    folder.mkdir(parents=True)
    (folder / "file").write_text(content, encoding="utf-8")
    write_manifest(folder, {})
    publish(folder, folder)
    return folder


def test_another_node_fetches_stages_by_key(
    store: ObjectStore, other_machine: Callable[[], None]
) -> None:
    inputs = Inputs("char", Split(stage("ingest", "text")), stage("model", "weights") / "file")
    sent = portable(inputs)
    other_machine()
    root = settings().root.resolve()
    found = fetched(sent)
    assert found == Inputs(
        "char",
        Split(root / "stages" / "ingest" / "key"),
        root / "stages" / "model" / "key" / "file",
    )
    assert (found.train.ingested / "file").read_text(encoding="utf-8") == "text"
    assert found.start.read_text(encoding="utf-8") == "weights"
    store.requests.clear()
    assert fetched(sent) == found
    assert store.requests == [], "the second process of a node finds them there"


def test_stages_removed_from_the_store_are_sent_again(
    store: ObjectStore, other_machine: Callable[[], None]
) -> None:
    inputs = Split(stage("ingest", "text"), stage("encode", "ids") / "file")
    remove_shared(inputs.ingested)
    remove_shared(stages_folder() / "encode" / "key")
    sent = portable(inputs)
    other_machine()
    found = fetched(sent)
    assert (found.ingested / "file").read_text(encoding="utf-8") == "text"
    assert found.encoded is not None and found.encoded.read_text(encoding="utf-8") == "ids"


def test_stages_in_use_stay_in_a_small_cache(
    store: ObjectStore, other_machine: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [portable(Split(stage(name, "much"))) for name in ("first", "second")]
    other_machine()
    monkeypatch.setenv("BIDAFLOW_CACHE_SIZE", "1")
    folders = [fetched(split).ingested for split in sent]
    assert [(folder / "file").exists() for folder in folders] == [True, True]


def test_paths_of_a_folder_as_root_stay_as_they_are(root: Path) -> None:
    inputs = Split(root / "stages" / "ingest" / "key", Path("/elsewhere"))
    assert portable(inputs) == inputs == fetched(inputs)


Limit = Callable[[int], None]


@pytest.fixture
def limit(store: object, monkeypatch: pytest.MonkeyPatch) -> Limit:
    return lambda size: monkeypatch.setenv("BIDAFLOW_CACHE_SIZE", str(size))


def sized_stage(name: str, hours_ago: float) -> Path:
    """A stage of 100 bytes that was used some hours ago."""
    final = stages_folder() / "write" / name
    with new_folder(final) as folder:
        (folder / "data").write_bytes(bytes(100))
        write_manifest(folder, {})
    used = (final / MANIFEST).stat().st_mtime - 3600 * hours_ago
    os.utime(final / MANIFEST, (used, used))
    return final


def test_least_recently_used_stages_are_removed(limit: Limit) -> None:
    old, oldest, new = sized_stage("old", 2), sized_stage("oldest", 3), sized_stage("new", 1)
    assert evict() == [], "there is no limit by default"
    limit(300)
    assert evict() == []
    limit(299)
    assert evict() == [oldest]
    limit(100)
    assert evict() == [old]
    assert list(new.parent.iterdir()) == [new]


def test_use_makes_a_stage_the_newest(store: object) -> None:
    first, second = sized_stage("first", 2), sized_stage("second", 1)
    use(first)
    assert (first / MANIFEST).stat().st_mtime > (second / MANIFEST).stat().st_mtime


def test_concurrent_evictions_remove_no_more(limit: Limit) -> None:
    newest_last = [sized_stage(f"{number:02}", 20 - number) for number in range(20)]
    limit(1000)
    all_ready = Barrier(4)

    def evict_at_once(_: int) -> list[Path]:
        all_ready.wait()
        return evict()

    with ThreadPoolExecutor(4) as threads:
        evictions = list(threads.map(evict_at_once, range(4)))
    removed = [folder for eviction in evictions for folder in eviction]
    assert sorted(removed) == newest_last[:10]
    assert sorted(newest_last[0].parent.iterdir()) == newest_last[10:]


def test_rest_of_a_killed_removal_is_replaced(limit: Limit) -> None:
    fetched_again = sized_stage("again", 1)
    rest = fetched_again.with_name(f"{PRUNED}again")
    rest.mkdir()
    (rest / "data").touch()
    limit(1)
    assert evict() == [fetched_again]
    assert list(rest.parent.iterdir()) == []


def test_local_root_is_never_evicted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = sized_stage("kept", 1)
    monkeypatch.setenv("BIDAFLOW_CACHE_SIZE", "1")
    assert evict() == [] and kept.exists()
