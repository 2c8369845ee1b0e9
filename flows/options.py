"""What the command line adds to cyclopts: lists as `a,b` or JSON, and errors of one line."""

import json
import shlex
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, get_origin

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    Token,
    UnknownOptionError,
    UnusedCliTokensError,
)
from cyclopts.argument import Argument, ArgumentCollection
from pydantic import BaseModel, ValidationError

from infra.errors import did_you_mean
from infra.masking import mask_secrets

HINT = "--help lists all options."
# What is allowed, by pydantic's type of an error; other errors have words of their own.
ALLOWED = {
    "greater_than_equal": "at least {ge:.15g}",
    "greater_than": "above {gt:.15g}",
    "less_than_equal": "at most {le:.15g}",
    "less_than": "below {lt:.15g}",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "literal_error": "{expected}",
    "string_too_short": "at least {min_length} character",
    "string_pattern_mismatch": "letters, digits, underscores, points and hyphens only",
    "too_short": "at least {min_length} item",
    "list_type": "a list",
    "extra_forbidden": "unknown field",
    "string_unicode": "text in UTF-8",
    "model_type": "a group of options, which --help lists",
}


def read_options(app: App, commands: Sequence[str], arguments: ArgumentCollection) -> None:
    """Let a list be typed as `a,b`, as JSON, or by repeating its option; then check all values.

    Raises:
        CycloptsError: some values are wrong; its message has a line for each of them.
    """
    for argument in arguments:
        if get_origin(argument.hint) is list:
            argument.tokens = [
                token.evolve(value=value)
                for token in argument.tokens
                for value in _split(argument, token)
            ]
    # Cyclopts itself would stop at the first group of fields with an error.
    problems: list[str] = []
    for argument in arguments:
        try:
            if not argument.keys:  # else it is checked with its group
                argument.convert_and_validate()
        except CycloptsError as error:
            problems += _problems(argument.name, error)
    if problems:
        raise CycloptsError("\n".join(problems))


def _split(argument: Argument, token: Token) -> list[str]:
    if not token.value.startswith(("[", "{")):
        parts = [part for part in token.value.split(",") if part]
        return parts or [token.value] * bool(token.value)  # "," is refused, not taken for nothing
    try:
        value = json.loads(token.value)
    except json.JSONDecodeError as error:
        message = f"invalid JSON ({error}), got {token.value!r}."
        raise CoercionError(message, argument=argument, token=token) from error
    values = value if isinstance(value, list) else [value]
    return [item if isinstance(item, str) else json.dumps(item) for item in values]


def as_typed(default: Any) -> str | None:
    """A default as it would be typed; None if there is none to show. A group of fields in a list is
    typed as its first field."""
    if default in (None, []):
        return None
    if not isinstance(default, list):
        return str(default)
    firsts = [next(iter(dict(i).values())) if isinstance(i, BaseModel) else i for i in default]
    return ",".join(map(str, firsts))


def explained(error: CycloptsError) -> str:
    """The message for the invalid words of a command, one line for each error."""
    if isinstance(error, UnusedCliTokensError):
        return mask_secrets(f"Unexpected argument: {' '.join(error.unused_tokens or [])}. {HINT}")
    if isinstance(error, UnknownOptionError):
        typed = (error.token.keyword or error.token.value).partition("=")[0]
        if meant := _ending_like(typed, error):
            return f"Unknown option: {typed}. Did you mean {meant}?"
    return mask_secrets(str(error))


def _ending_like(typed: str, error: UnknownOptionError) -> str:
    """The options of groups whose last part was typed alone; empty if there are none."""
    field = typed.lstrip("-").replace("_", "-")
    names = (name for argument in error.argument_collection for name in argument.names)
    return " or ".join(name for name in names if name.rpartition(".")[2] == field)


def _problems(option: str, error: CycloptsError) -> list[str]:
    if isinstance(error.__cause__, ValidationError):
        return [_line(option, detail) for detail in error.__cause__.errors()]
    error.verbose = False
    return [str(error)]


def _line(option: str, detail: Any) -> str:
    """The option of a field, what was typed, and what is allowed; in a list of groups of fields,
    also the place in the list."""
    names = list(takewhile(lambda part: isinstance(part, str), detail["loc"]))
    index, *fields = detail["loc"][len(names) :] or [0]
    place = f" item {index + 1}, {'.'.join(map(str, fields))}" if fields else ""
    value, context = detail["input"], detail.get("ctx", {})
    typed = "" if isinstance(value, dict) else f" {shlex.quote(str(value))}"  # else a whole group
    words = ALLOWED.get(detail["type"])
    reason = words.format(**context) if words else detail["msg"].removeprefix("Value error, ")
    hint = did_you_mean(str(value), context.get("expected", "").split("'")[1::2])
    name = ".".join([option, *names]).replace("_", "-")
    return f"{name}{place}{typed}: {reason.removesuffix('.')}.{hint}"
