"""The schema of a deployment's parameters, arranged so that Prefect's form is short and typed.

Prefect's V1 form draws an `anyOf` as buttons, of which one alternative is shown. Pydantic's schema
of an optional field is such an `anyOf`, so the form would ask for a type first. Here, an optional
field has one type, and an empty field is left out. The form uses the buttons to fold groups of
fields instead: it shows a group's `essentials` until all of its fields are asked for. Values that
were valid before stay valid, null included.
"""

from typing import Any

Schema = dict[str, Any]

# Keywords that the form needs to draw a field; the others restrict its values.
DRAWN = ("type", "items", "enum", "default", "title", "description")
# The titles of a group's two alternatives, without and with essential fields.
FOLDED, UNFOLDED = ("Defaults", "Change"), ("Essentials", "All settings")
# Words of field names that are not written in lower case.
SPELLINGS = {"cpus": "CPUs", "ema": "EMA", "f1": "F1", "gpu": "GPU", "mb": "MB", "oov": "OOV"}


def form_schema(schema: Schema) -> Schema:
    """The schema with typed optional fields, folded groups and plain titles.

    Unknown parameters are refused; by default the server accepts them. `essentials` in the schema
    of a group (`json_schema_extra` of its model) lists the fields that are shown at first.
    """
    groups = schema.get("definitions", {})
    return {
        **schema,
        "properties": _fields(schema, groups),
        "definitions": {name: _unfolded(group, groups) for name, group in groups.items()},
        "additionalProperties": False,
    }


def _fields(group: Schema, groups: Schema) -> Schema:
    return {
        name: {**_field(field, groups), "title": _title(name)}
        for name, field in group["properties"].items()
    }


def _unfolded(group: Schema, groups: Schema) -> Schema:
    """A group with all of its fields, under the title of the button that shows them."""
    if "properties" not in group:  # the choices of an enumeration
        return group
    return {**group, "properties": _fields(group, groups), "title": _titles(group)[1]}


def _field(field: Schema, groups: Schema) -> Schema:
    """A field as the form needs it: folded if it is a group, otherwise of one type."""
    group = _group_of(field, groups)
    if group:
        return _folded(field, group, groups)
    items = _group_of(field.get("items", {}), groups)
    if items and "default" in field:
        return {**field, "default": [_changed(item, items) for item in field["default"]]}
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return field
    others = {name: value for name, value in field.items() if name != "anyOf"}
    if others.get("default", ...) is None:
        del others["default"]
    return others | _with_null(kinds[0])


def _group_of(field: Schema, groups: Schema) -> Schema | None:
    """The group to which a field refers; None if it is no group of fields."""
    group: Schema = groups.get(field.get("$ref", "").rpartition("/")[2], {})
    return group if "properties" in group else None


def _changed(values: Schema, group: Schema) -> Schema:
    """The values of a group that differ from its fields' defaults, which the form fills in."""
    return {
        name: value
        for name, value in values.items()
        if value != group["properties"][name].get("default")
    }


def _with_null(kind: Schema) -> Schema:
    """The type of an optional field.

    Prefect itself adds null to types, but not to choices. A switch has no third position, so an
    optional one becomes a choice.
    """
    if kind.get("type") == "boolean":
        return {"enum": [True, False, None]}
    return {**kind, "enum": [*kind["enum"], None]} if "enum" in kind else kind


def _folded(field: Schema, group: Schema, groups: Schema) -> Schema:
    """A group of which the form shows the essential fields, with a button for all of them.

    The alternatives only draw the form. Values are checked by `then`, which reports an error at its
    field, while `anyOf` would report it for the whole group.
    """
    reference = {"$ref": field["$ref"]}
    essentials = {
        name: {key: field[key] for key in DRAWN if key in field}
        for name, field in _fields(group, groups).items()
        if name in group.get("essentials", [])
    }
    others = {name: value for name, value in field.items() if name != "$ref"}
    return {
        "description": group.get("description", ""),
        **others,
        "default": _changed(field.get("default", {}), group),  # with all, it would be unfolded
        # Before `anyOf`: Prefect fails if a group has an error before its fields have theirs.
        "if": {},
        "then": reference,
        "anyOf": [
            {"type": "object", "properties": essentials, "title": _titles(group)[0]},
            reference,
        ],
    }


def _titles(group: Schema) -> tuple[str, str]:
    return UNFOLDED if group.get("essentials") else FOLDED


def _title(name: str) -> str:
    """The title of a field: its name in plain words."""
    first, *others = (SPELLINGS.get(word, word) for word in name.split("_"))
    return " ".join([first[:1].upper() + first[1:], *others])
