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


def refuse_other_formats(beginning: bytes) -> None:
    """Raises FormatError if a file that should be JSON is empty or HTML, or is not UTF-8.

    A byte order mark, or a zero among the first four bytes, means UTF-16 or UTF-32: JSON begins
    with two ASCII characters.
    """
    if not beginning:
        raise FormatError("the file is empty. Download it again.")
    if beginning.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"<"):
        raise FormatError(
            "the file is HTML or XML. Download the data file itself, not a page about it."
        )
    if b"\0" in beginning[:4] or beginning[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise FormatError("the file is UTF-16 or UTF-32; save it as UTF-8.")


def field_error(error: ValidationError, place: str, entry: Any) -> FormatError:
    """The FormatError for the first invalid field of an entry; `place` locates it in the file."""
    details = error.errors(include_url=False, include_input=False)
    more = f" ({place} has {len(details)} errors.)" if len(details) > 1 else ""
    return FormatError(f"{explain(details[0], 0, entry, place + _name(entry))}.{more}")


def explain(detail: ErrorDetails, depth: int, entry: Any, *place: str) -> str:
    """What is wrong with a field, as a clause: its place, its value and the rule that it breaks.

    `entry` is the object at this depth of the error's `loc`; `place` precedes the path from there.
    """
    names, value, container = list(place), entry, ""
    for step in detail["loc"][depth:]:
        if isinstance(step, int):
            value = value[step]
            names.append(f"{_ENTRIES[container]} {step + 1}{_name(value)}")
        else:
            value, container = value.get(step), step
    if detail["loc"] and isinstance(detail["loc"][-1], str):
        names.append(f'field "{container}"')
    return f"{', '.join(names)}: {_problem(detail, value)}"


def _problem(detail: ErrorDetails, value: Any) -> str:
    if detail["type"] == "missing":
        return "missing; add it"
    rule = detail["msg"].partition(" ")[2]  # "Input should be …", "String should have …"
    if detail["type"] == "model_type":
        rule = "should be an object"
    elif detail["type"] in ("string_unicode", "value_error"):
        rule = "has an unpaired surrogate, which is no character"
    return f"found {short_json(value)}; it {rule}"


def _name(entry: Any) -> str:
    if not isinstance(entry, dict):
        return ""
    name = entry.get("id", entry.get("title"))
    return "" if name is None else f" {short_json(name)}"


def short_json(value: Any) -> str:
    """A value as JSON, shortened."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}…"


def on_one_line(sentence: str) -> str:
    """The sentence without line breaks and terminal codes that text from a file may contain."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(sentence.split()))
