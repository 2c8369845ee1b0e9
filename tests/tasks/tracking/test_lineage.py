"""The list of finished stages, while another process removes some."""

from pathlib import Path
from threading import Event, Thread

from infra.artifacts.manifest import stages_folder, write_manifest
from infra.atomic_files import PRUNED
from tasks.tracking.lineage import finished_stages


def test_stages_may_vanish_while_they_are_listed(root: Path) -> None:
    kept, vanishing = (stages_folder() / "write" / name for name in ("kept", "vanishing"))
    for folder in (kept, vanishing):
        folder.mkdir(parents=True)
        write_manifest(folder, {})
    removed, stop = vanishing.with_name(f"{PRUNED}vanishing"), Event()

    def remove_and_restore() -> None:
        while not stop.is_set():
            vanishing.rename(removed)
            removed.rename(vanishing)

    thread = Thread(target=remove_and_restore)
    thread.start()
    try:
        listed = {frozenset(finished_stages()) for _ in range(100)}
    finally:
        stop.set()
        thread.join()
    assert all("write/kept" in names for names in listed)
