"""Messages for malformed files: the byte, or the entry and field, and how to fix it."""

import codecs
import json
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

_ENTRIES = {"data": "article", "paragraphs": "paragraph", "qas": "question", "answers": "answer"}


class FormatError(Exception):
    """A format error in a file; the message is complete except for the file's name."""


def json_error(reason: str) -> FormatError:
    """The FormatError for a file that the JSON parser rejects; `reason` is the parser's message."""
    if "hex escape" in reason:
        reason += ", a truncated escape or an unpaired surrogate"
    return FormatError(f"not valid JSON ({reason}). Fix the file, or download it again.")


def utf8_error(content: bytes, before: int) -> FormatError | None:
    """The FormatError for bytes that are not UTF-8, else None.

    `before` is the number of bytes that precede `content` in the file.
    """
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":  # truncated: the JSON parser says so
            byte = content[error.start : error.start + 1]
            return FormatError(
                f"byte {before + error.start + 1} (0x{byte.hex().upper()}, "
                f"{byte.decode('cp1252', 'replace')!r} in Windows-1252) is not UTF-8; save the "
                "file as UTF-8."
            )
    return None


def refuse_wide_characters(beginning: bytes) -> None:
    """Raises FormatError if a file begins like UTF-16 or UTF-32 text.

    It looks for a byte order mark, or for a zero among the first four bytes: JSON begins with two
    ASCII characters, so a zero byte there means wide characters.
    """
    if b"\0" in beginning[:4] or beginning[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise FormatError("the file is UTF-16 or UTF-32; save it as UTF-8.")


def field_error(error: ValidationError, place: str, entry: Any) -> FormatError:
    """The FormatError for the first invalid field of an entry; `place` locates it in the file."""
    details = error.errors(include_url=False, include_input=False)
    more = f" ({place} has {len(details)} errors.)" if len(details) > 1 else ""
    return FormatError(_explain(details[0], place, entry) + more)


def _explain(detail: ErrorDetails, place: str, entry: Any) -> str:
    place += _name(entry)
    value, container = entry, ""
    for step in detail["loc"]:
        if isinstance(step, int):
            value = value[step]
            place += f", {_ENTRIES[container]} {step + 1}{_name(value)}"
        else:
            value, container = value.get(step), step
    if detail["loc"] and isinstance(detail["loc"][-1], str):
        place += f', field "{container}"'
    if detail["type"] == "missing":
        return f"{place}: missing; add it."
    rule = detail["msg"].partition(" ")[2]  # "Input should be …", "String should have …"
    if detail["type"] == "model_type":
        rule = "should be an object"
    return f"{place}: found {short_json(value)}; it {rule}."


def _name(entry: Any) -> str:
    if not isinstance(entry, dict):
        return ""
    name = entry.get("id", entry.get("title"))
    return "" if name is None else f" {short_json(name)}"


def short_json(value: Any) -> str:
    """A value as JSON, shortened."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}…"
