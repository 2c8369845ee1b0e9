"""The cache of a shared root keeps to its size, without stages in use."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from infra.artifacts.eviction import evict, note_use
from infra.artifacts.locks import lock_file, shared_lock
from infra.artifacts.manifest import MANIFEST, stages_folder, write_manifest
from infra.artifacts.staging import PRUNED, new_folder

Limit = Callable[[int], None]


@pytest.fixture
def limit(store: object, monkeypatch: pytest.MonkeyPatch) -> Limit:
    return lambda size: monkeypatch.setenv("BIDAFLOW_CACHE_SIZE", str(size))


def stage(name: str, hours_ago: float) -> Path:
    """A stage of 100 bytes that was used some hours ago."""
    final = stages_folder() / "write" / name
    with new_folder(final) as folder:
        (folder / "data").write_bytes(bytes(100))
        write_manifest(folder, {})
    used = (final / MANIFEST).stat().st_mtime - 3600 * hours_ago
    os.utime(final / MANIFEST, (used, used))
    return final


def test_least_recently_used_stages_are_removed(limit: Limit) -> None:
    old, oldest, new = stage("old", 2), stage("oldest", 3), stage("new", 1)
    assert evict() == [], "there is no limit by default"
    limit(300)
    assert evict() == []
    limit(299)
    assert evict() == [oldest]
    limit(100)
    assert evict() == [old]
    assert list(new.parent.iterdir()) == [new]


def test_use_protects_from_removal(limit: Limit) -> None:
    first, second = stage("first", 2), stage("second", 1)
    note_use(first)
    limit(100)
    assert evict() == [second]


def test_stage_in_use_is_kept_beyond_the_limit(limit: Limit) -> None:
    used, free = stage("used", 2), stage("free", 1)
    limit(1)
    with shared_lock(lock_file(used, "use")):
        assert evict() == [free]
    assert evict() == [used]


def test_concurrent_evictions_remove_no_more(limit: Limit) -> None:
    newest_last = [stage(f"{number:02}", 40 - number) for number in range(40)]
    limit(2000)
    all_ready = Barrier(8)

    def evict_at_once(_: int) -> list[Path]:
        all_ready.wait()
        return evict()

    with ThreadPoolExecutor(8) as threads:
        evictions = list(threads.map(evict_at_once, range(8)))
    removed = [folder for eviction in evictions for folder in eviction]
    assert sorted(removed) == newest_last[:20]
    assert sorted(newest_last[0].parent.iterdir()) == newest_last[20:]


def test_rest_of_a_killed_removal_is_replaced(limit: Limit) -> None:
    fetched_again = stage("again", 1)
    rest = fetched_again.with_name(f"{PRUNED}again")
    rest.mkdir()
    (rest / "data").touch()
    limit(1)
    assert evict() == [fetched_again]
    assert list(rest.parent.iterdir()) == []


def test_local_root_is_never_evicted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = stage("kept", 1)
    monkeypatch.setenv("BIDAFLOW_CACHE_SIZE", "1")
    before = (kept / MANIFEST).stat().st_mtime_ns
    note_use(kept)
    assert evict() == []
    assert (kept / MANIFEST).stat().st_mtime_ns == before
