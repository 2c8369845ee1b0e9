"""Commands made from flows: one option for each field of Prefect's form, with the same words."""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import Parameter as Argument
from inspect import Signature, getdoc, signature
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from cyclopts import Group, Parameter
from cyclopts.help import ColumnSpec, DefaultFormatter, DescriptionRenderer, HelpEntry, NameRenderer
from prefect import Flow
from prefect.client.schemas.objects import State
from pydantic import BaseModel, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from rich.console import Console, ConsoleOptions

from flows.common.user_errors import PRINTED_AT_EXIT, result_or_exit
from infra.errors import did_you_mean

METAVARS = {int: "INT", float: "NUMBER", str: "TEXT"}
INDENT = "  "  # of a long option's further lines in --help
LIMITS = ((Ge, "ge", "≥"), (Gt, "gt", ">"), (Le, "le", "≤"), (Lt, "lt", "<"))


@dataclass(frozen=True)
class Section:
    """A title under which `--help` lists the options of a group of fields, and its description."""

    title: str
    help: str


@dataclass(frozen=True)
class Option:
    """A field of a flow's form, such as `training.epochs`, as the option `--training.epochs`."""

    path: tuple[str, ...]
    field: FieldInfo
    section: Section

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return flag_of(self.path)

    @property
    def argument(self) -> str:
        """The name of the Python argument."""
        return "__".join(self.path)

    @property
    def type(self) -> Any:
        """The field's type without None."""
        return _plain(self.field.annotation)

    @property
    def element(self) -> Any:
        """The type of one value: of a list's elements, or the field's own."""
        return _plain(get_args(self.type)[0]) if self.is_list else self.type

    @property
    def is_list(self) -> bool:
        """Whether the field takes several values."""
        return get_origin(self.type) is list

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed values; empty: any value of the type."""
        return get_args(self.element) if get_origin(self.element) is Literal else ()

    @property
    def bounds(self) -> str:
        """The bounds of a number, such as "1 to 1000" or "> 0"; empty: no bounds.

        The bounds of a list are those of each element.
        """
        metadata = _metadata(get_args(self.type)[0]) if self.is_list else self.field.metadata
        limits = {type(limit): limit for limit in metadata}
        if Ge in limits and Le in limits:
            return f"{limits[Ge].ge} to {limits[Le].le}"
        return ", ".join(
            f"{sign} {getattr(limits[kind], attribute)}"
            for kind, attribute, sign in LIMITS
            if kind in limits
        )

    @property
    def default(self) -> str | None:
        """The default as it would be typed; None: there is none."""
        value = self.field.default
        if value in (None, PydanticUndefined, []):
            return None
        if isinstance(value, list):
            return ",".join(map(_as_typed, value))
        return str(value)

    @property
    def help(self) -> str:
        """The description of Prefect's form, with the bounds or the choices of a list."""
        notes = [self.bounds, ", ".join(self.choices) if self.is_list else ""]
        return " ".join([self.field.description or "", *(f"[{note}]" for note in notes if note)])

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
                sys.exit(f"{self.flag}: invalid JSON ({error}), got {text!r}.")
            return value if isinstance(value, list) else [value]
        return [part for part in text.split(",") if part]

    def as_argument(self, group: Group, positional: bool) -> Argument:
        """The option as an argument of the command's function."""
        default = self.default
        if self.is_list:
            annotation: Any = list[str]
        elif self.choices or self.type is bool:
            annotation = self.type
        else:
            annotation = str
        shown = Parameter(
            name=self.flag,
            help=self.help,
            group=group,
            metavar=_metavar(self.element) + ("…" if self.is_list else ""),
            show_default=False if default is None else lambda _: default,
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
    return [
        option
        for name, parameter in signature(flow.fn).parameters.items()
        for option in _options(
            (name,),
            FieldInfo.from_annotated_attribute(parameter.annotation, parameter.default),
            Section("Options", ""),
        )
    ]


def _options(path: tuple[str, ...], field: FieldInfo, section: Section) -> Iterator[Option]:
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        inner_section = Section(
            ": ".join(path).capitalize(), field.description or getdoc(kind) or ""
        )
        for name, inner in kind.model_fields.items():
            yield from _options((*path, name), inner, inner_section)
    else:
        yield Option(path, field, section)


def _as_typed(value: Any) -> str:
    """A list's element as it would be typed: a group of fields by its first one."""
    return str(next(iter(dict(value).values())) if isinstance(value, BaseModel) else value)


def _plain(annotation: Any) -> Any:
    """A type without its metadata and without None."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return _plain(next(kind for kind in get_args(annotation) if kind is not NoneType))
    return annotation


def _metadata(annotation: Any) -> list[Any]:
    """The metadata of an annotated type, such as its bounds."""
    return [
        item
        for entry in getattr(annotation, "__metadata__", ())
        for item in (entry.metadata if isinstance(entry, FieldInfo) else [entry])
    ]


def _metavar(kind: Any) -> str:
    return METAVARS.get(kind, "CHOICE" if get_origin(kind) is Literal else "TEXT")


def flow_command(
    flow: Flow[..., Any], announce: Callable[[Any], None], positional: str | None = None
) -> Callable[..., None]:
    """A command that runs a flow and announces its result.

    `positional` names the option that may also be given without its flag. A user error ends the
    process with its message, as the last line on the terminal.
    """
    options = options_of(flow)
    groups = _groups(options)
    arguments = [
        option.as_argument(groups[option.section], option.flag == positional) for option in options
    ]
    shape = Signature(sorted(arguments, key=lambda argument: argument.kind))
    run: Callable[..., State[Any]] = flow

    def command(*args: Any, **kwargs: Any) -> None:
        typed = shape.bind(*args, **kwargs).arguments
        parameters = parse_parameters(flow, options, typed)
        PRINTED_AT_EXIT.set(True)
        announce(result_or_exit(run(**parameters, return_state=True)))

    command.__doc__ = flow.description
    command.__signature__ = shape  # type: ignore[attr-defined]
    return command


def _groups(options: Sequence[Option]) -> dict[Section, Group]:
    """The sections of `--help`: the fields that belong to no group of fields come first."""
    sections = sorted(
        dict.fromkeys(option.section for option in options), key=lambda section: bool(section.help)
    )
    formatter = DefaultFormatter(column_specs=_columns)
    return {
        section: Group.create_ordered(section.title, section.help, help_formatter=formatter)
        for section in sections
    }


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
        parsed = create_model(flow.name, **fields).model_validate(_nested(options, typed))
    except ValidationError as error:
        sys.exit("\n".join(_error_line(detail) for detail in error.errors()))
    return {name: getattr(parsed, name) for name in fields}


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
    return (
        f"{flag_of(detail['loc'])}: {detail['msg']}, got {detail['input']!r}."
        f"{did_you_mean(str(detail['input']), choices)} --help lists all options."
    )
