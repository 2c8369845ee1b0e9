"""A flow's parameters on the command line, with the fields and descriptions of Prefect's form."""

import sys
from collections.abc import Callable
from inspect import signature
from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import State
from pydantic import ValidationError, create_model
from pydantic_settings import BaseSettings, CliApp, SettingsConfigDict, SettingsError

from flows.common.user_errors import PRINTED_AT_EXIT, result_or_exit


class _Command(BaseSettings):
    model_config = SettingsConfigDict(cli_kebab_case=True, cli_implicit_flags=True)

    @classmethod
    def settings_customise_sources(cls, *args: Any, **sources: Any) -> tuple[Any, ...]:
        """Read only the command line, so no environment variable sets a parameter by accident."""
        return (sources["init_settings"],)


def run_from_command_line(flow: Flow[..., Any]) -> Any:
    """Run a flow with the parameters on the command line, and return its result.

    A user error ends the process with its message, as the last line on the terminal.
    """
    parameters = parse_parameters(sys.argv[1:], flow)
    PRINTED_AT_EXIT.set(True)
    run: Callable[..., State[Any]] = flow
    return result_or_exit(run(**parameters, return_state=True))


def parse_parameters(arguments: list[str], flow: Flow[..., Any]) -> dict[str, Any]:
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
        sys.exit("\n".join(_error_line(detail) for detail in error.errors()))
    except SettingsError as error:
        sys.exit(str(error))
    return {name: getattr(parsed, name) for name in fields}


def _error_line(detail: Any) -> str:
    flag = "--" + ".".join(str(part).replace("_", "-") for part in detail["loc"])
    return f"{flag}: {detail['msg']}, got {detail['input']!r}. --help lists all flags."
