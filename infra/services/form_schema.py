"""The schema of a deployment's parameters, arranged so that Prefect's form is plain and typed.

Prefect's V1 form draws an `anyOf` as buttons, of which one alternative is shown, and forgets what
was typed in the others. Pydantic's schema of an optional field is such an `anyOf`, so the form
would ask for a type first. Here, every field has one type, all fields are shown, and an empty field
is left out.
"""

from typing import Any

Schema = dict[str, Any]

# Words of field names that are not written in lower case.
SPELLINGS = {"cpus": "CPUs", "f1": "F1", "gpu": "GPU", "mb": "MB"}


def form_schema(schema: Schema) -> Schema:
    """The schema with typed optional fields and plain titles.

    Unknown parameters are refused; by default the server accepts them.
    """
    groups = schema.get("definitions", {})
    return {
        **_with_fields(schema, groups),
        "definitions": {name: _with_fields(group, groups) for name, group in groups.items()},
        "additionalProperties": False,
    }


def _with_fields(group: Schema, groups: Schema) -> Schema:
    if "properties" not in group:  # the choices of an enumeration
        return group
    fields = {
        name: {**_field(field, groups), "title": _title(name)}
        for name, field in group["properties"].items()
    }
    return {**group, "properties": fields}


def _field(field: Schema, groups: Schema) -> Schema:
    """A field as the form needs it: of one type, and without a default if that is empty.

    A group has no default, since its fields have theirs.
    """
    reference = field.get("$ref", "").rpartition("/")[2]
    if reference:
        words = groups[reference].get("description", "")
        return {"description": words} | {k: v for k, v in field.items() if k != "default"}
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return field
    others = {name: value for name, value in field.items() if name != "anyOf"}
    if others.get("default", ...) is None:
        del others["default"]
    return others | _with_null(kinds[0])


def _with_null(kind: Schema) -> Schema:
    """The type of an optional field.

    Prefect itself adds null to types, but not to choices. A switch has no third position, so an
    optional one becomes a choice.
    """
    if kind.get("type") == "boolean":
        return {"enum": [True, False, None]}
    return {**kind, "enum": [*kind["enum"], None]} if "enum" in kind else kind


def _title(name: str) -> str:
    """The title of a field: its name in plain words."""
    first, *others = (SPELLINGS.get(word, word) for word in name.split("_"))
    return " ".join([first[:1].upper() + first[1:], *others])
