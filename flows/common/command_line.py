"""The command line that repeats a flow run, and the words of messages about its options."""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from prefect.runtime import flow_run
from pydantic import BaseModel, TypeAdapter

from infra.masking import mask_secrets
from tasks.tracking.runs import flatten

COMMANDS = {
    "compare-variants": "compare",
    "evaluate-embeddings": "embeddings evaluate",
    "evaluate-model": "evaluate",
    "train-embeddings": "embeddings train",
}
"""The commands that are not named like their flows."""


def command_of_run() -> str:
    """The command of the current flow run, whether it was started in the UI or in a terminal."""
    return command_of(str(flow_run.flow_name), flow_run.parameters)


def command_of(flow: str, parameters: Mapping[str, Any]) -> str:
    """The command that runs a flow with these parameters; fields with their default are left out.

    Lists are separated by commas, or written as JSON if a value has one. Secrets in addresses are
    masked, because reports show the command.
    """
    changed = TypeAdapter(dict[str, Any]).dump_python(
        dict(parameters), mode="json", exclude_defaults=True
    )
    words = ["bidaflow", *COMMANDS.get(flow, flow).split()]
    for path, value in flatten(changed).items():
        if value not in (None, []):
            words += _option(path.replace("_", "-"), value)
    return shlex.join(words)


def _option(path: str, value: Any) -> list[str]:
    """The words that set the option at a path, such as `--data.no-repair` for False."""
    if isinstance(value, bool):
        group, dot, name = path.rpartition(".")
        return [f"--{group}{dot}{'' if value else 'no-'}{name}"]
    text = _list_as_typed(value) if isinstance(value, list) else mask_secrets(str(value))
    # A value that starts with a dash would be read as an option.
    return [f"--{path}={text}"] if text.startswith("-") else [f"--{path}", text]


def _list_as_typed(values: list[Any]) -> str:
    texts = [mask_secrets(str(value)) for value in values]
    if all(isinstance(value, str | int | float) for value in values) and not any(
        character in text for text in texts for character in ",[{"
    ):
        return ",".join(texts)
    return mask_secrets(json.dumps(values, ensure_ascii=False))


def with_options(message: str, groups: Mapping[str, type[BaseModel]]) -> str:
    """A message with the fields of groups, such as data.dev_share, as they are typed in a terminal:
    --data.dev-share."""
    fields = [f"{name}.{field}" for name, group in groups.items() for field in group.model_fields]
    return re.sub(
        rf"(?<![\w.-])({'|'.join(map(re.escape, fields))})(?!\w|\.\w)",
        lambda found: f"--{found[0].replace('_', '-')}",
        message,
    )
