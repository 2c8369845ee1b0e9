"""The flow runs in progress, by their notes below the root.

A run holds a lock while it lives. Whoever gets the lock of a note knows that its run is dead, also
in another container on the same root, where the ids of processes mean nothing. At an address there
are no locks: a run renews its note there, and is dead if it has not done so for a while.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from infra.artifacts.locks import exclusive_lock, lock_if_free
from infra.atomic_files import write_atomically
from infra.errors import UserError
from infra.processes import ProcessRecord
from infra.settings import settings
from infra.storage.store import root_store

FOLDER = "under-way"
BEAT_SECONDS = 60.0
LOST_SECONDS = 600.0  # ten beats, as the store or the network may be away for minutes


class Note(ProcessRecord, frozen=True):
    """The note of a flow run: its process, and what people know it by."""

    # Empty in the note of an ended run whose MLflow runs are still to be ended.
    flow: str = ""
    name: str = ""
    api: str = ""  # URL of the Prefect server's API
    command: str = ""  # repeats the run


@contextmanager
def noted(run_id: str, note: Note) -> Iterator[None]:
    """Keep the note of this process's flow run within the block: hold its lock, and renew the note
    at the root's address, if there is one."""
    finished = threading.Event()

    def beat() -> None:
        while not finished.wait(BEAT_SECONDS):
            with suppress(OSError, UserError):  # the next one may succeed
                _renew(run_id, note)

    thread = threading.Thread(target=beat, daemon=True)
    with exclusive_lock(_lock(run_id), "Waiting for another process to end the run."):
        write_note(run_id, note)
        _renew(run_id, note)
        thread.start()
        try:
            yield
        finally:
            finished.set()
            thread.join()
            remove_note(run_id)


def _renew(run_id: str, note: Note) -> None:
    if store := root_store():
        store.write(f"{FOLDER}/{run_id}.json", note.model_dump_json().encode())


def lost_notes() -> dict[str, Note]:
    """The notes at the root's address that have not been renewed for LOST_SECONDS, by run.

    By the clock of the store: no note is newer than that of a run which has just begun.
    """
    store = root_store()
    if store is None:
        return {}
    notes = store.below(FOLDER)
    files = notes.listed().items()
    times = {name: info.mtime_ns or 0 for name, info in files if name.endswith(".json")}
    since = max(times.values(), default=0) - LOST_SECONDS * 10**9
    lost = {name: notes.read(name) for name, time in times.items() if time < since}
    return {
        Path(name).stem: Note.model_validate_json(content)
        for name, content in lost.items()
        if content is not None  # its run has just ended
    }


def notes() -> dict[str, Note]:
    """All notes on this machine, by the ids of their runs."""
    found = {}
    for file in _file("any").parent.glob("*.json"):
        with suppress(FileNotFoundError):  # its run has just ended
            found[file.stem] = Note.model_validate_json(file.read_text(encoding="utf-8"))
    return found


def live_runs() -> dict[str, Note]:
    """The flow runs in progress on this root, by id."""
    with ExitStack() as locks:
        return {i: note for i, note in notes().items() if not locks.enter_context(dead(i))}


def dead(run_id: str) -> AbstractContextManager[bool]:
    """Whether a flow run is dead; if so, its lock is held within the block, so that one process
    ends what it has left."""
    return lock_if_free(_lock(run_id))


def write_note(run_id: str, note: Note) -> None:
    """Write the note of a run on this machine, atomically."""
    write_atomically(_file(run_id), note.model_dump_json())


def remove_note(run_id: str) -> None:
    """Remove the note of a run, also from the root's address, if there is one."""
    _file(run_id).unlink(missing_ok=True)
    if store := root_store():
        with suppress(OSError, UserError):  # without a heartbeat, it is removed by another run
            store.remove(f"{FOLDER}/{run_id}.json")


def _file(run_id: str) -> Path:
    return settings().root.resolve() / FOLDER / f"{run_id}.json"


def _lock(run_id: str) -> Path:
    return settings().root.resolve() / "locks" / f"run-{run_id}"
