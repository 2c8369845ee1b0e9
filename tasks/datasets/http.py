"""Files at http and https URLs, with versions identified by the server's validators."""

import re
import time
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel

from infra.errors import UserError
from tasks.datasets.download import DownloadError, discard, download, validator


class WebFile(BaseModel, frozen=True):
    """A file's URL, and the version of its content.

    The version is the server's strong ETag or its Last-Modified. If the server sends neither, it is
    the time of the request, because the content may have changed since any earlier one.
    """

    url: str
    version: str

    @property
    def name(self) -> str:
        """The last part of the URL's path, with ".json" appended if it has no extension."""
        name = PurePosixPath(unquote(urlsplit(self.url).path)).name or "data"
        return name if "." in name else f"{name}.json"


def is_http_url(uri: str) -> bool:
    """Whether a URI is an http or https URL."""
    return re.match(r"https?://", uri, re.IGNORECASE) is not None


def find_web_file(url: str) -> WebFile:
    """The current version of the file at a URL.

    Raises:
        UserError: the URL can't be read or contains a password; the message says why.
    """
    if urlsplit(url).password is not None:
        raise UserError("The URL of a data file contains a password. Use one without a password.")
    try:
        version = validator(url)
    except DownloadError as error:
        raise _download_error(error) from error
    return WebFile(url=url, version=version or f"requested at {time.time_ns()}")


def fetch_web_file(out: Path, file: WebFile) -> dict[str, Any]:
    """Download a file into `out`, under its name.

    Raises:
        UserError: the download fails; the message says why.
    """
    target = out / file.name
    unfinished = target.with_name(f"{file.name}.unfinished")
    try:
        download(file.url, unfinished)
    except DownloadError as error:
        raise _download_error(error) from error
    unfinished.replace(target)
    discard(unfinished)  # its validator file is still there
    return {"bytes": target.stat().st_size}


def _download_error(error: DownloadError) -> UserError:
    return UserError(f"{error}. Check the URL, or download the file and give the path of the copy.")
