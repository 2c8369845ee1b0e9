"""What the command line adds to cyclopts: lists as `a,b` or JSON, and errors of one line."""

import json
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, get_origin

from cyclopts import App, CoercionError, CycloptsError, Token, UnusedCliTokensError
from cyclopts.argument import Argument, ArgumentCollection
from pydantic import BaseModel, ValidationError

from infra.errors import did_you_mean
from infra.masking import mask_secrets

HINT = "--help lists all options."


def split_lists(app: App, commands: Sequence[str], arguments: ArgumentCollection) -> None:
    """Let a list be typed as `a,b`, as JSON, or by repeating its option."""
    for argument in arguments:
        if get_origin(argument.hint) is list:
            argument.tokens = [
                token.evolve(value=value)
                for token in argument.tokens
                for value in _split(argument, token)
            ]


def _split(argument: Argument, token: Token) -> list[str]:
    if not token.value.startswith(("[", "{")):
        return [part for part in token.value.split(",") if part]
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
    """The errors in the words of a command: a line for each invalid option, with what was
    typed and what is allowed."""
    cause = error.__cause__
    if isinstance(cause, ValidationError) and error.argument is not None:
        lines = [_line(error.argument.name, detail) for detail in cause.errors()]
    elif isinstance(error, UnusedCliTokensError):
        lines = [f"Unexpected argument: {' '.join(error.unused_tokens or [])}."]
    else:
        lines = [str(error)]
    return mask_secrets("\n".join(f"{line} {HINT}" for line in lines))


def _line(option: str, detail: Any) -> str:
    """An error of a field in words: its option, the place in a list, what is allowed, and what was
    typed."""
    names = list(takewhile(lambda part: isinstance(part, str), detail["loc"]))
    index, *fields = detail["loc"][len(names) :] or [0]
    place = f" item {index + 1}, {'.'.join(map(str, fields))}:" if fields else ""
    reason = detail["msg"].removeprefix("Value error, ").removesuffix(".")
    value, expected = detail["input"], detail.get("ctx", {}).get("expected", "")
    typed = "" if isinstance(value, dict) else f", got {value!r}"  # the option names a group
    hint = did_you_mean(str(value), expected.split("'")[1::2])
    return f"{'.'.join([option, *names]).replace('_', '-')}:{place} {reason}{typed}.{hint}"
