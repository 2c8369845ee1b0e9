"""What users read of errors of other libraries and of faults of the machine."""

import errno
import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import torch

from infra.errors import fault_of_machine, first_line


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("\nno such file.\nTraceback:\n  a", "no such file"),
        ("ACCESS_DENIED (Request ID: A1B2). More", "ACCESS_DENIED"),
        ("", ""),
    ],
)
def test_first_line_of_an_error(message: str, line: str) -> None:
    assert first_line(OSError(message)) == line


def full_disk() -> None:
    with open("/dev/full", "wb", buffering=0) as file:
        file.write(b"x")


def locked_database(folder: Path) -> None:
    file = folder / "runs.db"
    with (
        closing(sqlite3.connect(file)) as writer,
        closing(sqlite3.connect(file, timeout=0)) as other,
    ):
        writer.execute("BEGIN EXCLUSIVE")
        other.execute("CREATE TABLE runs (id)")


def read_only(folder: Path) -> None:
    raise PermissionError(errno.EROFS, os.strerror(errno.EROFS), str(folder / "stages"))


def locked(folder: Path) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder / "a.json"))


def open_too_many(folder: Path) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(folder / "a.json"))


def fail_on_gpu(says: str, _: Path) -> None:
    raise RuntimeError(f"{says}. Of the allocated memory 1 GiB is allocated by PyTorch")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda _: full_disk(), r"^The disk is full: .*No space left.*`bidaflow prune --yes`"),
        (read_only, r"/stages can't be written: Read-only file system.*set BIDAFLOW_ROOT"),
        (locked, r"/a\.json can't be read or written: Permission denied\. Change its permissions"),
        (open_too_many, r"^Too many open files: .*a\.json'\. Allow more, .*`ulimit -n 4096`"),
        (lambda _: "a…".encode("ascii"), r"^'\\u2026' can't be encoded as ascii\. Set PYTHONUTF8"),
        (lambda _: (2**64).to_bytes(8), r"^A number is too large: .*\. Choose smaller values"),
        (locked_database, "^A database below the storage root is locked by another program"),
        (lambda _: bytearray(2**62), r"^Out of memory: MemoryError. Lower --training.batch-size"),
        (lambda _: torch.empty(2**50), r"^Out of memory: .*can't allocate memory"),
        *(
            (partial(fail_on_gpu, says), rf"^The GPU ran out of memory: {says}\. Lower --training")
            for says in (
                "CUDA out of memory",
                "CUDA error: out of memory",
                "CUBLAS_STATUS_ALLOC_FAILED",
            )
        ),
    ],
)
def test_fault_of_the_machine_has_a_remedy(
    tmp_path: Path, fault: Callable[[Path], object], message: str
) -> None:
    """Also if another error was raised because of it."""
    with pytest.raises(RuntimeError) as raised:
        try:
            fault(tmp_path)
        except Exception as error:
            raise RuntimeError("the step failed") from error
    found = fault_of_machine(raised.value)
    assert found is not None and re.search(message, str(found)), found


def test_other_errors_are_no_faults_of_the_machine() -> None:
    assert fault_of_machine(FileNotFoundError(errno.ENOENT, "No such file", "x")) is None
    assert fault_of_machine(ValueError("1")) is None
