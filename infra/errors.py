"""Errors that users see as one message instead of a traceback."""

from collections.abc import Iterable
from difflib import get_close_matches

from infra.masking import mask_secrets


class UserError(Exception):
    """A mistake that the user can fix; the message names the problem and its place.

    Secrets in its addresses are masked.
    """

    def __init__(self, message: str) -> None:
        super().__init__(mask_secrets(message))


class RetryableError(UserError):
    """A failure that may be gone when the same run is tried again; Prefect may retry it."""


def first_line(error: Exception) -> str:
    """The first line of an error's message, without a final dot and the number of S3's request."""
    return str(error).strip().partition("\n")[0].partition(" (Request ID")[0].rstrip(".")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that suggests the known name closest to `name`; empty if none is close."""
    matches = get_close_matches(name, list(known), n=1)
    return f" Did you mean {matches[0]!r}?" if matches else ""
