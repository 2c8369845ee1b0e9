"""Form fields that change the fields of a configuration, with their help, choices and bounds."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import Field as ConfigField
from dataclasses import fields
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, Field, create_model

from models.configs.presets import PRESETS
from models.configs.variant import (
    CharacterConfig,
    ContextualConfig,
    ModelConfig,
    TrainingConfig,
)
from tasks.datasets.catalog import DATASETS

_Form = TypeVar("_Form", bound=BaseModel)


def with_fields(definitions: dict[str, Any]) -> Callable[[type[_Form]], type[_Form]]:
    """Decorator that adds fields to a form, each defined by its type and its pydantic field."""

    def extend(form: type[_Form]) -> type[_Form]:
        return create_model(
            form.__name__,
            __base__=form,
            __module__=form.__module__,
            __doc__=form.__doc__,
            **definitions,
        )

    return extend


def changes_to(config: type, disabled_by_zero: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Definitions of form fields that change a configuration's fields; empty: no change.

    Args:
        config: the dataclass of the configuration.
        disabled_by_zero: fields that also accept 0, and what it means.
    """
    zeros = disabled_by_zero or {}
    return {
        field.name: _definition(config, field, zeros.get(field.name)) for field in fields(config)
    }


def _definition(config: type, field: ConfigField[Any], zero: str | None) -> tuple[Any, Any]:
    kind: Any = field.type
    bounds = dict(field.metadata["bounds"])
    if zero is not None:
        bounds = {name: bound for name, bound in bounds.items() if name in ("le", "lt")} | {"ge": 0}
    description = describe(config, field.name, None if zero is None else f"0: {zero}.")
    if get_origin(kind) is tuple:
        items: Any = Annotated[get_args(kind)[0], Field(**bounds)]
        return list[items] | None, Field(None, min_length=1, description=description)
    return kind | None, Field(None, description=description, **bounds)


def describe(config: type, name: str, note: str | None = None) -> str:
    """The help of a configuration's field, a note of the form's own, and what applies by default:
    the most common preset's value first, then those of other presets and of known datasets."""
    texts = {field.name: field.metadata["help"] for field in fields(config)}
    common, *others = _preset_values(config, name) + _dataset_values(config, name)
    exceptions = f" ({'; '.join(others)})" if others else ""
    default = f"Default: {common}{exceptions}."
    return " ".join(part for part in (texts[name], note, default) if part)


def _preset_values(config: type, name: str) -> list[str]:
    """The most common value first, then the others after the names of their presets."""
    presets: dict[str, list[str]] = defaultdict(list)
    for variant in PRESETS.values():
        model = variant.model
        for part in (variant.training, model, model.characters, model.contextual):
            if isinstance(part, config):
                presets[_shown(getattr(part, name))].append(variant.name)
    (common, _), *others = sorted(presets.items(), key=lambda item: -len(item[1]))
    return [common, *(f"{', '.join(names)}: {value}" for value, names in others)]


def _dataset_values(config: type, name: str) -> list[str]:
    """The values that replace the presets' if a known dataset is trained on.

    Datasets change no fields of the character CNN and of the contextual vectors, such as `dropout`,
    which is also the name of a field of the model.
    """
    if config not in (TrainingConfig, ModelConfig):
        return []
    return [
        f"on {dataset.name}: {_shown(dataset.training[name])}"
        for dataset in DATASETS.values()
        if name in dataset.training
    ]


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool | CharacterConfig | ContextualConfig):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
