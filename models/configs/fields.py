"""Configuration fields with help and bounds, and the check of their values."""

import math
import operator
from dataclasses import field, fields
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin


def require(condition: bool, message: str) -> None:
    """Raise ValueError with this message unless the condition holds."""
    if not condition:
        raise ValueError(message)


_BOUNDS = {
    "ge": (operator.ge, "at least"),
    "gt": (operator.gt, "above"),
    "le": (operator.le, "at most"),
    "lt": (operator.lt, "below"),
}

_T = TypeVar("_T")


def option(default: _T, help: str, **bounds: float) -> _T:
    """A dataclass field with its help and the bounds of its number, or of each item of its tuple:
    `ge`, `gt`, `le` and `lt`, as in pydantic."""
    return field(default=default, metadata={"help": help, "bounds": bounds})


def require_valid_fields(config: Any, prefix: str = "") -> None:
    """Require that each field holds a value of its Literal, or numbers within its bounds."""
    for config_field in fields(config):
        name, value = f"{prefix}{config_field.name}", getattr(config, config_field.name)
        allowed, bounds = get_args(config_field.type), config_field.metadata["bounds"]
        if get_origin(config_field.type) is Literal:
            choices = f"{', '.join(map(repr, allowed[:-1]))} or {allowed[-1]!r}"
            require(value in allowed, f"{name} must be {choices}, not {value!r}.")
        elif bounds and not (value is None and NoneType in allowed):
            _require_in_bounds(name, value, bounds)


def _require_in_bounds(name: str, value: Any, bounds: dict[str, float]) -> None:
    if isinstance(value, tuple):
        for index, item in enumerate(value):
            _require_in_bounds(f"{name}[{index}]", item, bounds)
        return
    require(-math.inf < value < math.inf, f"{name} must be a finite number, not {value}.")
    expected = " and ".join(f"{_BOUNDS[kind][1]} {bound}" for kind, bound in bounds.items())
    require(
        all(_BOUNDS[kind][0](value, bound) for kind, bound in bounds.items()),
        f"{name} must be {expected}, not {value}.",
    )
