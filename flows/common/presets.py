"""Presets by name: the published ones, those of the operator, and in a terminal a user's own."""

import re
import runpy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from infra.errors import UserError, did_you_mean
from infra.settings import settings
from models.configs.presets import PRESETS
from models.configs.variant import VariantConfig

OWN = re.compile(r"(?P<file>.+\.py):(?P<name>[^:]+)")  # a preset in a Python file


def known_presets() -> Mapping[str, VariantConfig]:
    """The presets that a form offers: the published ones, and those of BIDAFLOW_PRESETS."""
    own = settings().presets
    return PRESETS if own is None else PRESETS | presets_in(own)


def check_variant(spec: str) -> str:
    """Accept the name of a known preset, or `FILE.py:NAME`, whose file is not run."""
    known = known_presets()
    if spec not in known and not OWN.fullmatch(spec):
        raise ValueError(f"unknown variant; expected one of: {', '.join(known)}, or FILE.py:NAME")
    return spec


def find_preset(spec: str) -> VariantConfig:
    """The preset with this name, or in this file.

    Raises:
        UserError: there is none, or it is invalid; or a deployment has started this run, which may
            not run a file that its parameters name.
    """
    own = OWN.fullmatch(spec)
    if own is None:
        presets, name = known_presets(), spec
    else:
        from prefect.runtime import deployment  # takes a second to load

        if deployment.id is not None:
            raise UserError(
                f"{spec} can be chosen in a terminal only, because it runs code. Set "
                "BIDAFLOW_PRESETS to the file, start the services again, and choose the name."
            )
        presets, name = presets_in(Path(own["file"])), own["name"]
    if name not in presets:
        raise UserError(
            f"Unknown variant {name!r}; expected one of: {', '.join(presets)}."
            f"{did_you_mean(name, presets)}"
        )
    return presets[name]


def configure(name: str, suited: dict[str, Any], *changes: dict[str, Any]) -> VariantConfig:
    """A preset with changed fields; later changes override earlier ones.

    Only a published preset takes what is `suited` to a dataset; a preset of the user's own is
    trained as it says.

    Raises:
        UserError: the changed preset would be invalid; the message names the field.
    """
    preset = find_preset(name)
    recommended = suited if preset.name in PRESETS else {}
    merged = {key: value for change in (recommended, *changes) for key, value in change.items()}
    try:
        return preset.with_changes(**merged)
    except ValueError as error:
        raise UserError(str(error)) from error


@cache
def presets_in(file: Path) -> dict[str, VariantConfig]:
    """Run a Python file, and return the presets that it makes, by name.

    Raises:
        UserError: it can't be run, makes none, or one with an invalid value or a published name.
    """
    try:
        made = runpy.run_path(str(file.expanduser())).values()
    except Exception as error:
        raise UserError(f"{file} can't be run: {type(error).__name__}: {error}.") from error
    published = PRESETS.values()
    found = [v for v in made if isinstance(v, VariantConfig) and v not in published]
    if not found:
        raise UserError(f"{file} makes no VariantConfig; docs/variants.md has an example.")
    for preset in found:
        _require_valid(file, preset)
    return {preset.name: preset for preset in found}


def _require_valid(file: Path, preset: VariantConfig) -> None:
    name = str(preset.name)
    if name in PRESETS or not re.fullmatch(r"\w[\w.-]*", name):
        raise UserError(
            f"{file} names a preset {name!r}. Choose another name, of letters, digits, "
            "underscores, points and hyphens."
        )
    try:
        TypeAdapter(VariantConfig).validate_python(preset.to_dict())
    except ValidationError as error:
        detail = error.errors()[0]
        field = ".".join(str(part) for part in detail["loc"])
        raise UserError(
            f"{file}, preset {name}: {field}: {detail['msg']}, not {detail['input']!r}."
        ) from error
