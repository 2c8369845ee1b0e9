"""What Prefect's forms tell of the parameters of flows."""

from collections.abc import Callable
from inspect import getdoc, signature
from typing import Any

from pydantic.fields import FieldInfo


def documented(body: Callable[..., Any]) -> str:
    """A flow body's docstring, with a section on the parameters that are annotated with a sentence:
    Prefect's form takes those of parameters from there alone."""
    told = [
        f"    {name}: {field.description}"
        for name, parameter in signature(body).parameters.items()
        for field in getattr(parameter.annotation, "__metadata__", ())
        if isinstance(field, FieldInfo) and field.description
    ]
    return "\n".join([getdoc(body) or "", "", "Args:", *told] if told else [getdoc(body) or ""])
