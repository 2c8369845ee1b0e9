"""Errors that users see as one message instead of a traceback."""

import errno
import os
from collections.abc import Iterable
from difflib import get_close_matches

from infra.masking import mask_secrets

# What torch, CUDA and its libraries say, in a RuntimeError.
_NO_GPU_MEMORY = ("CUDA out of memory", "CUDA error: out of memory", "_STATUS_ALLOC_FAILED")
_NO_MEMORY = "DefaultCPUAllocator: can't allocate memory"


class UserError(Exception):
    """A mistake that the user can fix; the message names the problem and its place.

    Secrets in its addresses are masked.
    """

    def __init__(self, message: str) -> None:
        super().__init__(mask_secrets(message))


class RetryableError(UserError):
    """A failure that may be gone when the same run is tried again; Prefect may retry it."""


def fault_of_machine(error: BaseException) -> UserError | None:
    """What to do about a full disk, a file that can't be written, too many open files, a locked
    database, text that can't be encoded, a number out of range or a lack of memory that caused an
    error; None for other errors."""
    causes = [error]
    while cause := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(cause)
    return next((fault for cause in causes if (fault := _fault(cause))), None)


def _fault(error: BaseException) -> UserError | None:
    message = str(error)
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.ENOSPC, errno.EDQUOT) or "database or disk is full" in message:
        return UserError(
            f"The disk is full: {first_line(error)}. Free some space, for example by `bidaflow "
            "prune --yes`, and run the same command again: it resumes."
        )
    if isinstance(error, OSError) and number in (errno.EROFS, errno.EACCES):
        access = "written" if number == errno.EROFS else "read or written"
        return UserError(
            f"{error.filename or 'A file'} can't be {access}: {error.strerror}. Change its "
            "permissions, or set BIDAFLOW_ROOT to a folder that you can write to."
        )
    if number in (errno.EMFILE, errno.ENFILE) or os.strerror(errno.EMFILE) in message:
        return UserError(
            f"Too many open files: {first_line(error)}. Allow more, for example by `ulimit -n "
            "4096`, and run the same command again: it resumes."
        )
    if isinstance(error, UnicodeEncodeError):
        return UserError(
            f"{error.object[error.start : error.end]!a} can't be encoded as {error.encoding}. Set "
            "PYTHONUTF8=1, and remove it from the names of files and the values of options."
        )
    if isinstance(error, OverflowError):
        return UserError(
            f"A number is too large: {first_line(error)}. Choose smaller values of the options."
        )
    if "database is locked" in message:
        return RetryableError(
            "A database below the storage root is locked by another program. Run the same command "
            "again when that has ended: it resumes."
        )
    if any(words in message for words in _NO_GPU_MEMORY):
        # torch goes on with its caches and an environment variable.
        reason = first_line(error).partition(" Of the allocated memory")[0].rstrip(".")
        return UserError(
            f"The GPU ran out of memory: {reason}. Lower --training.batch-size or "
            "--training.max-context-tokens, or let fewer trainings share it by "
            "--resources.trainings, and run the command again."
        )
    if isinstance(error, MemoryError) or _NO_MEMORY in message:
        return UserError(
            f"Out of memory: {first_line(error) or type(error).__name__}. Lower "
            "--training.batch-size or --training.max-context-tokens, and run the command again."
        )
    return None


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without a final dot and the number of S3's request."""
    return str(error).strip().partition("\n")[0].partition(" (Request ID")[0].rstrip(".")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that suggests the known name closest to `name`; empty if none is close."""
    matches = get_close_matches(name, list(known), n=1)
    return f" Did you mean {matches[0]!r}?" if matches else ""
