"""Commands made from flows: one option for each field of Prefect's form, with the same words."""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import Parameter as Argument
from inspect import Signature, signature
from itertools import takewhile
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter
from cyclopts.help import ColumnSpec, DefaultFormatter, DescriptionRenderer, HelpEntry, NameRenderer
from prefect import Flow
from prefect.client.schemas.objects import State
from pydantic import ValidationError, create_model
from rich.console import Console, ConsoleOptions

from flows.common.failures import PRINTED_AT_EXIT, result_or_exit
from infra.errors import did_you_mean
from infra.masking import mask_secrets

METAVARS = {"integer": "INT", "number": "NUMBER", "enum": "CHOICE"}
# How an option is parsed by the type of its field; other types are parsed as text.
ANNOTATIONS: dict[str, Any] = {"array": list[str], "boolean": bool}
INDENT = "  "  # of a long option's further lines in --help
LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}

Schema = dict[str, Any]  # a JSON schema


def _columns(
    console: Console, options: ConsoleOptions, entries: list[HelpEntry]
) -> tuple[ColumnSpec, ...]:
    """Columns of `--help` in which no option's name is broken into two lines."""
    longest = max(len(name) for entry in entries for name in entry.all_options)
    width = max(math.ceil(0.35 * console.width), longest + len(INDENT))
    return (
        ColumnSpec(NameRenderer(width), style="cyclopts.name", max_width=width),
        ColumnSpec(DescriptionRenderer(), overflow="fold"),
    )


HELP_FORMATTER = DefaultFormatter(column_specs=_columns)


@dataclass(frozen=True)
class Option:
    """A field of a flow's form, such as `training.epochs`, as the option `--training.epochs`."""

    path: tuple[str, ...]
    field: Schema  # of its values other than null
    section: Group  # of --help

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return flag_of(self.path)

    @property
    def argument(self) -> str:
        """The name of the Python argument."""
        return "__".join(self.path)

    @property
    def is_list(self) -> bool:
        """Whether the field takes several values."""
        return "items" in self.field

    @property
    def element(self) -> Schema:
        """The schema of one value: of a list's elements, or the field's own."""
        return self.field["items"] if self.is_list else self.field

    @property
    def bounds(self) -> str:
        """The bounds of a number, such as "1 to 1000" or "> 0"; empty: no bounds.

        The bounds of a list are those of each element.
        """
        element = self.element
        if "minimum" in element and "maximum" in element:
            return f"{element['minimum']} to {element['maximum']}"
        return ", ".join(
            f"{sign} {element[name]}" for name, sign in LIMITS.items() if name in element
        )

    @property
    def default(self) -> str | None:
        """The default as it would be typed; None: there is none."""
        value = self.field.get("default")
        if value in (None, []):
            return None
        if isinstance(value, list):  # a group of fields is typed as its first one
            return ",".join(
                str(next(iter(v.values())) if isinstance(v, dict) else v) for v in value
            )
        return str(value)

    @property
    def help(self) -> str:
        """The description of Prefect's form, with the bounds or the choices of a list."""
        choices = self.element.get("enum", []) if self.is_list else []
        notes = [self.bounds, ", ".join(choices)]
        return " ".join([self.field["description"], *(f"[{note}]" for note in notes if note)])

    def parse(self, typed: Any) -> Any:
        """The value for pydantic; a list is typed as `a,b`, as JSON, or by repeating the option."""
        if not self.is_list:
            return typed
        return [value for text in typed for value in self._split(text)]

    def _split(self, text: str) -> list[Any]:
        if text.startswith(("[", "{")):
            try:
                value = json.loads(text)
            except json.JSONDecodeError as error:
                sys.exit(mask_secrets(f"{self.flag}: invalid JSON ({error}), got {text!r}."))
            return value if isinstance(value, list) else [value]
        return [part for part in text.split(",") if part]

    def as_argument(self, positional: bool) -> Argument:
        """The option as an argument of the command's function."""
        annotation: Any = ANNOTATIONS.get(self.field["type"], str)
        if "enum" in self.field:
            annotation = Literal[tuple(self.field["enum"])]
        value_type = "enum" if "enum" in self.element else self.element.get("type", "")
        shown = Parameter(
            name=self.flag,
            help=self.help,
            group=self.section,
            metavar=METAVARS.get(value_type, "TEXT") + ("…" if self.is_list else ""),
            show_default=False if self.default is None else lambda _: self.default,
            negative_iterable=(),
        )
        kind = Argument.POSITIONAL_OR_KEYWORD if positional else Argument.KEYWORD_ONLY
        return Argument(
            self.argument, kind, default=None, annotation=Annotated[annotation | None, shown]
        )


def flag_of(path: Sequence[str | int]) -> str:
    """The option that sets a field, such as `--training.epochs` for ("training", "epochs")."""
    return "--" + ".".join(str(part).replace("_", "-") for part in path)


def options_of(flow: Flow[..., Any]) -> list[Option]:
    """All fields of a flow's form, in its order."""
    form = flow.parameters
    section = Group.create_ordered("Options", help_formatter=HELP_FORMATTER)
    return list(_options((), form.properties, form.definitions, section))


def _options(
    path: tuple[str, ...], fields: Schema, groups: Schema, section: Group
) -> Iterator[Option]:
    for name, field in fields.items():
        field_path = (*path, name)
        if "$ref" in field:
            group = groups[field["$ref"].rpartition("/")[2]]
            inner_section = Group.create_ordered(
                ": ".join(field_path).capitalize(),
                field.get("description", group["description"]),
                help_formatter=HELP_FORMATTER,
            )
            yield from _options(field_path, group["properties"], groups, inner_section)
        else:
            not_null = field.get("anyOf", [{}])[0]
            yield Option(field_path, field | not_null, section)


def flow_command(
    flow: Flow[..., Any], announce: Callable[[Any], None], positional: str | None = None
) -> Callable[..., None]:
    """A command that runs a flow and announces its result.

    `positional` names the option that may also be given without its flag. A user error ends the
    process with its message, as the last line on the terminal.
    """
    options = options_of(flow)
    arguments = [option.as_argument(option.flag == positional) for option in options]
    shape = Signature(sorted(arguments, key=lambda argument: argument.kind))
    run: Callable[..., State[Any]] = flow

    def command(*args: Any, **kwargs: Any) -> None:
        parameters = parse_parameters(flow, options, shape.bind(*args, **kwargs).arguments)
        PRINTED_AT_EXIT.set(True)
        announce(result_or_exit(run(**parameters, return_state=True)))

    command.__signature__ = shape  # type: ignore[attr-defined]
    return command


def parse_parameters(
    flow: Flow[..., Any], options: Sequence[Option], typed: dict[str, Any]
) -> dict[str, Any]:
    """The flow's parameters from the options that were typed.

    Invalid values end the process with one line per invalid field.
    """
    fields: dict[str, Any] = {
        name: (parameter.annotation, parameter.default)
        for name, parameter in signature(flow.fn).parameters.items()
    }
    try:
        return dict(create_model(flow.name, **fields).model_validate(_nested(options, typed)))
    except ValidationError as error:
        sys.exit("\n".join(_error_line(detail) for detail in error.errors()))


def _nested(options: Sequence[Option], typed: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for option in options:
        value = typed.get(option.argument)
        if value is not None:
            target = values
            for part in option.path[:-1]:
                target = target.setdefault(part, {})
            target[option.path[-1]] = option.parse(value)
    return values


def _error_line(detail: Any) -> str:
    choices = re.findall(r"'([^']*)'", detail.get("ctx", {}).get("expected", ""))
    option = list(takewhile(lambda part: isinstance(part, str), detail["loc"]))
    index, *fields = detail["loc"][len(option) :] or [0]  # of an option that takes a list
    place = f" item {index + 1}, {'.'.join(map(str, fields))}:" if fields else ""
    reason = detail["msg"].removeprefix("Value error, ").removesuffix(".")
    value = detail["input"]
    shown = "" if isinstance(value, dict) else f", got {value!r}"  # the option names the group
    hint = did_you_mean(str(value), choices)
    return mask_secrets(
        f"{flag_of(option)}:{place} {reason}{shown}.{hint} --help lists all options."
    )
