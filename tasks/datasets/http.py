"""Files on the web, told from later ones at the same address by what their server says of them."""

import re
import time
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel

from infra.errors import UserError
from tasks.datasets.download import NotDownloaded, discard, download, validator


class WebFile(BaseModel, frozen=True):
    """A file's address, and what tells its content from a later one's: the server's strong ETag or
    the time of the last change. Where it names neither, the time of asking, as any time may."""

    url: str
    version: str

    @property
    def name(self) -> str:
        """Its last name; JSON where that doesn't say what the file is."""
        name = PurePosixPath(unquote(urlsplit(self.url).path)).name or "data"
        return name if "." in name else f"{name}.json"


def is_on_the_web(address: str) -> bool:
    """Whether something is named by an address of the web."""
    return re.match(r"https?://", address, re.IGNORECASE) is not None


def find_web_file(url: str) -> WebFile:
    """What stands at an address now.

    Raises:
        UserError: it can't be had, or the address holds a secret; the sentence says why.
    """
    if urlsplit(url).password is not None:
        raise UserError("An address of data holds a secret: name one without a password.")
    try:
        version = validator(url)
    except NotDownloaded as error:
        raise _not_there(error) from error
    return WebFile(url=url, version=version or f"asked for at {time.time_ns()}")


def fetch_web_file(out: Path, file: WebFile) -> dict[str, Any]:
    """Download a file into `out`, under its name.

    Raises:
        UserError: it can't be had; the sentence says why.
    """
    target = out / file.name
    unfinished = target.with_name(f"{file.name}.unfinished")
    try:
        download(file.url, unfinished)
    except NotDownloaded as error:
        raise _not_there(error) from error
    unfinished.replace(target)
    discard(unfinished)  # its validator is left
    return {"bytes": target.stat().st_size}


def _not_there(error: NotDownloaded) -> UserError:
    return UserError(f"{error}: check the address, or download the file and name the copy.")
