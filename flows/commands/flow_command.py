"""Commands made from flows: one option for each field of Prefect's form, with the same words."""

import math
from collections.abc import Callable
from functools import partial
from inspect import Parameter as Argument
from inspect import Signature, getdoc, signature
from typing import Annotated, Any, get_args

from cyclopts import Group, Parameter
from cyclopts.help import ColumnSpec, DefaultFormatter, DescriptionRenderer, HelpEntry, NameRenderer
from prefect import Flow
from prefect.client.schemas.objects import State
from pydantic import BaseModel
from rich.console import Console, ConsoleOptions

from flows.common.command_line import with_options
from flows.common.failures import PRINTED_AT_EXIT, result_or_exit
from flows.common.parameters import description_of

INDENT = "  "  # of a long option's further lines in --help


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


def flow_command(
    flow: Flow[..., Any],
    announce: Callable[[Any], None],
    positional: str | None = None,
    **defaults: Any,
) -> Callable[..., None]:
    """A command that runs a flow and announces its result.

    `positional` names the parameter that may also be given without its option; of a group, its
    fields that are not keyword-only. `defaults` are those of parameters that a deployment requires:
    only in a terminal is `tiny` trained without being named. A user error ends the process with its
    message, as the last line on the terminal.
    """
    section = Group.create_ordered("Options", help_formatter=HELP_FORMATTER)
    arguments = [
        _argument(
            parameter.replace(default=defaults.get(name, parameter.default)),
            section,
            name == positional,
        )
        for name, parameter in signature(flow.fn).parameters.items()
    ]
    shape = Signature(sorted(arguments, key=lambda argument: argument.kind))
    run: Callable[..., State[Any]] = flow

    def command(*args: Any, **kwargs: Any) -> None:
        PRINTED_AT_EXIT.set(True)
        chosen = shape.bind(*args, **kwargs).arguments
        state = run(**{**defaults, **chosen}, return_state=True)
        announce(result_or_exit(state, partial(with_options, groups=groups_of(flow))))

    command.__signature__ = shape  # type: ignore[attr-defined]
    return command


def groups_of(flow: Flow[..., Any]) -> dict[str, type[BaseModel]]:
    """The groups of fields among a flow's parameters, by name."""
    kinds = {name: _kind(p.annotation) for name, p in signature(flow.fn).parameters.items()}
    return {name: kind for name, kind in kinds.items() if _is_group(kind)}


def _kind(annotation: Any) -> Any:
    return (get_args(annotation) or [annotation])[0]


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _argument(parameter: Argument, section: Group, positional: bool) -> Argument:
    """A flow's parameter as cyclopts reads it: a group of fields has a section of its own."""
    annotation = parameter.annotation
    kind = _kind(annotation)
    words = description_of(annotation)
    if _is_group(kind):
        title = parameter.name.capitalize()
        group = Group.create_ordered(title, words or getdoc(kind), help_formatter=HELP_FORMATTER)
        shown = Parameter(group=group)
    else:
        # A group of fields in a list is typed as its name, or as JSON.
        shown = Parameter(group=section, help=words, accepts_keys=False, n_tokens=1)
    return parameter.replace(
        kind=Argument.POSITIONAL_OR_KEYWORD if positional else Argument.KEYWORD_ONLY,
        annotation=Annotated[annotation, shown],
    )
