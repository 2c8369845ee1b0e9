"""The base of the groups of fields from which forms, options and their help are made."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}

# gensim takes no larger ones, and a browser would round those above 2**53.
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]


class Form(BaseModel):
    """A group of fields that rejects unknown fields, NaN or infinite numbers, and integers of more
    than 64 bits, which Prefect's server can't store.

    Each field is declared once, with its words, bounds and choices. Its description ends with its
    bounds, in Prefect's form as in `--help`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _require_64_bits(cls, value: Any) -> Any:
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError(f"at most {2**63 - 1}")
        return value

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        properties = cls.model_json_schema()["properties"]
        for name, field in cls.model_fields.items():
            field.description = with_bounds(field.description, properties[name])
        cls.model_rebuild(force=True)


def with_bounds(description: str | None, schema: dict[str, Any]) -> str:
    """A field's description with the bounds of its number, or of a list's numbers, such as
    "[1 to 1000]" or "[> 0]". `schema` is the field's JSON schema."""
    kind = schema.get("anyOf", [schema])[0]
    kind = kind.get("items", kind)
    bounds = ", ".join(f"{sign} {kind[name]}" for name, sign in LIMITS.items() if name in kind)
    if "minimum" in kind and "maximum" in kind:
        bounds = f"{kind['minimum']} to {kind['maximum']}"
    return f"{description} [{bounds}]" if bounds else str(description or "")
