"""Downloads files, and resumes partial downloads."""

import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import httpx

from infra.errors import UserError
from infra.masking import mask_secrets
from infra.progress import megabytes
from infra.proxies import require_usable_proxy
from infra.reporting.progress_reporter import ProgressReporter
from infra.run_logger import logger

# Failed attempts before giving up, counted from the last one that received new data.
ATTEMPTS = 5
# The wait before the second attempt; it doubles before each later one.
BACK_OFF_SECONDS = 1.0
# A server that sends nothing for this long counts as failed.
STALL_SECONDS = 30.0
MAX_REDIRECTS = 10
# The space that a download must leave free on the disk.
SPARE_BYTES = 64 << 20

Result = TypeVar("Result")


class DownloadError(Exception):
    """A URL can't be downloaded; the message says why, with the URL's secrets masked."""

    def __init__(self, message: str) -> None:
        super().__init__(mask_secrets(message))


class _TransientError(Exception):
    """An attempt failed but is worth repeating; the message says why."""


def _mask_record(record: logging.LogRecord) -> bool:
    record.msg, record.args = mask_secrets(record.getMessage()), ()
    return True


logging.getLogger("httpx").addFilter(_mask_record)  # it logs the URL of each request


def download(url: str, partial: Path) -> None:
    """Download the file at `url` to `partial`, resuming where an earlier call ended.

    The server's validator (ETag or Last-Modified) is kept in a file next to `partial`. With it the
    server checks whether the file has changed; if it has, or if there is no validator, the
    download restarts from the beginning.

    Raises:
        DownloadError: the server refuses the request, or the network fails too often.
        UserError: the disk has too little space.
    """
    _retry(url, partial, lambda: _download_once(url, partial))


def validator(url: str) -> str | None:
    """The server's validator for the content of a URL: a strong ETag, else Last-Modified, or None.

    Raises:
        DownloadError: the server refuses the request, or the network fails too often.
    """
    return _retry(url, None, lambda: _request_validator(url))


def _request_validator(url: str) -> str | None:
    """Send a GET and drop the body, because not every server answers a HEAD."""
    with _open(url, {}) as response:
        return _validator_of(response)


def _retry(url: str, partial: Path | None, operation: Callable[[], Result]) -> Result:
    """Return `operation()`, retrying while the network fails.

    An attempt that extends the `partial` download restarts the count of failures. Raises
    DownloadError after `ATTEMPTS` failures.
    """
    failures, most_received = 0, _size(partial)
    while True:
        try:
            return operation()
        except httpx.TooManyRedirects as error:
            raise DownloadError(f"{url} redirects more than {MAX_REDIRECTS} times") from error
        except (httpx.TransportError, httpx.InvalidURL, _TransientError) as error:
            reason = str(error) or type(error).__name__
        failures = 1 if _size(partial) > most_received else failures + 1
        most_received = max(most_received, _size(partial))
        if failures >= ATTEMPTS:
            raise DownloadError(f"{url}: {reason} (gave up after {ATTEMPTS} failed attempts)")
        wait = BACK_OFF_SECONDS * 2 ** (failures - 1)
        logger().warning(mask_secrets(f"{url}: {reason}; retrying in {wait:.0f} s."))
        time.sleep(wait)


def _download_once(url: str, partial: Path) -> None:
    validator = _validator_file(partial)
    begin = _size(partial) if validator.exists() else 0
    headers = (
        {"Range": f"bytes={begin}-", "If-Range": validator.read_text(encoding="utf-8")}
        if begin
        else {}
    )
    with _open(url, headers) as response:
        begin, total = _response_range(response, begin, partial)
        if begin != total:
            _receive(response, partial, begin, total)
    if total is not None and _size(partial) != total:
        raise _TransientError(f"the transfer ended after {_size(partial)} of {total} bytes")


def _response_range(response: httpx.Response, begin: int, partial: Path) -> tuple[int, int | None]:
    """The offset at which the response begins, and the file's total bytes if the server says so.

    A complete response (status 200) restarts the download. Raises _TransientError if a partial one
    does not continue it.
    """
    if response.status_code == httpx.codes.OK:
        discard(partial)
        validator = _validator_of(response)
        if validator:
            _validator_file(partial).write_text(validator, encoding="utf-8")
        length = response.headers.get("Content-Length")
        return 0, int(length) if length else None
    # The second form belongs to status 416: the file is already complete.
    expected = rf"bytes (?:{begin}-\d+/(\d+)|\*/{begin})"
    match = re.fullmatch(expected, response.headers.get("Content-Range", ""))
    if match is None:
        discard(partial)
        raise _TransientError("the server returned another byte range than requested")
    return begin, int(match[1] or begin)


def _receive(response: httpx.Response, partial: Path, begin: int, total: int | None) -> None:
    missing = (total or 0) - begin
    free = shutil.disk_usage(partial.parent).free
    if missing > free - SPARE_BYTES:
        raise UserError(
            f"Not enough disk space: the download needs {megabytes(missing)}, but only "
            f"{megabytes(free)} are free in {partial.parent}. Free up space, or set BIDAFLOW_ROOT "
            "to a folder on another disk."
        )
    with (
        ProgressReporter(Path(response.url.path).name, total, done_before=begin) as progress,
        partial.open("ab" if begin else "wb") as file,
    ):
        for block in response.iter_raw():
            file.write(block)
            progress.report(file.tell())


@contextmanager
def _open(url: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
    """The successful response to a GET request, after following redirects.

    Raises _TransientError or DownloadError for an error status, and UserError for a proxy that
    can't be used.
    """
    require_usable_proxy(url)
    client = httpx.Client(
        headers={"Accept-Encoding": "identity", **headers},
        timeout=httpx.Timeout(STALL_SECONDS, connect=10.0),
        follow_redirects=True,
        max_redirects=MAX_REDIRECTS,
        event_hooks={"response": [require_safe_redirect]},
    )
    with client, client.stream("GET", url) as response:
        status = response.status_code
        if status not in (200, 206, 416):
            status_line = f"HTTP {status} {response.reason_phrase}".strip()
            if status >= 500 or status in (408, 425, 429):
                raise _TransientError(f"the server returned {status_line}")
            raise DownloadError(f"{response.url} returned {status_line}")
        yield response


def require_safe_redirect(response: httpx.Response) -> None:
    """Raise DownloadError unless a redirect leads to https, or from http to http."""
    if not response.has_redirect_location:
        return
    source, target = response.url, response.url.join(response.headers["Location"])
    if target.scheme != "https" and (source.scheme, target.scheme) != ("http", "http"):
        raise DownloadError(f"{source} redirects to {target}, which is unsafe and was not followed")


def _validator_of(response: httpx.Response) -> str | None:
    """The strong ETag, else Last-Modified, or None; a weak ETag does not identify the bytes."""
    tag: str | None = response.headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")


def _validator_file(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.validator")


def discard(partial: Path) -> None:
    """Delete a partial download and its validator."""
    partial.unlink(missing_ok=True)
    _validator_file(partial).unlink(missing_ok=True)


def _size(partial: Path | None) -> int:
    return partial.stat().st_size if partial and partial.exists() else 0
