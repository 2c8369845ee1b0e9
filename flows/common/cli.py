"""A flow's parameters on the command line, with the fields and descriptions of Prefect's form."""

import sys
from collections.abc import Callable
from inspect import getdoc, signature
from typing import Any

from prefect import Flow
from pydantic import ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, CliApp, SettingsConfigDict, SettingsError


class _Command(BaseSettings):
    model_config = SettingsConfigDict(cli_kebab_case=True, cli_implicit_flags=True)

    @classmethod
    def settings_customise_sources(cls, *args: Any, **sources: Any) -> tuple[Any, ...]:
        """Read only the command line, so no environment variable sets a parameter by accident."""
        return (sources["init_settings"],)


def parameters_from(arguments: list[str], flow: Flow[..., Any]) -> dict[str, Any]:
    """The flow's parameters, parsed from flags such as `--training.epochs 2`.

    Invalid flags end the process with one line per invalid field; `--help` lists all fields.
    """
    fields: dict[str, Any] = {
        name: (parameter.annotation, parameter.default)
        for name, parameter in signature(flow.fn).parameters.items()
    }
    command = create_model(flow.name, __base__=_Command, __doc__=flow.description, **fields)
    try:
        parsed = CliApp.run(command, cli_args=arguments)
    except ValidationError as error:
        sys.exit("\n".join(_sentence(detail) for detail in error.errors()))
    except SettingsError as error:
        sys.exit(str(error))
    return {name: getattr(parsed, name) for name in fields}


def _sentence(detail: Any) -> str:
    flag = "--" + ".".join(str(part).replace("_", "-") for part in detail["loc"])
    return f"{flag}: {detail['msg']} (it was {detail['input']!r}); --help lists what can be set."


def documented(body: Callable[..., Any]) -> str:
    """A flow body's docstring, with an Args section for parameters annotated with a description.

    The docstring is the only place from which Prefect's form takes a parameter's description.
    """
    told = [
        f"    {name}: {field.description}"
        for name, parameter in signature(body).parameters.items()
        for field in getattr(parameter.annotation, "__metadata__", ())
        if isinstance(field, FieldInfo) and field.description
    ]
    return "\n".join([getdoc(body) or "", "", "Args:", *told] if told else [getdoc(body) or ""])
