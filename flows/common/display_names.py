"""Short names for compared items, just long enough to be distinct."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.common.data import name_of_data
from flows.common.parameters import DataParameters, VectorParameters
from infra.errors import UserError
from infra.masking import mask_secrets
from tasks.embeddings.formats.source import BILM, VECTORS, parts_of
from tasks.tracking.runs import flatten


def require_unique(**parameters: Sequence[Any]) -> None:
    """Refuse lists of parameters with duplicates.

    Raises:
        UserError: an item occurs twice.
    """
    for field, items in parameters.items():
        if any(item in items[:number] for number, item in enumerate(items)):
            raise UserError(f"{field} contains duplicates. List each item only once.")


def names_of_data(data: Sequence[DataParameters]) -> list[str]:
    """A name for each dataset: the name of its runs, extended as far as needed to be distinct."""
    paths = [Path(mask_secrets(dataset.dataset)).parent / name_of_data(dataset) for dataset in data]
    return distinct_names(
        [(str(path), dataset.model_dump()) for path, dataset in zip(paths, data, strict=True)]
    )


def names_of_vectors(vectors: Sequence[VectorParameters]) -> list[str]:
    """A name for each set of vectors, extended as far as needed to be distinct.

    It is the name of its file, of its folder if it was trained here, or of its training method.
    Joined sets have the names of all, with a + in between.
    """
    return distinct_names([(path_of(source.source), source.model_dump()) for source in vectors])


def path_of(source: str) -> str:
    """The path by which a set of vectors or a language model is named; of joined sets, the names of
    all."""
    if len(parts := parts_of(source)) > 1:
        return "+".join(Path(path_of(part)).name for part in parts)
    path = Path(mask_secrets(source))
    return str(path.resolve().parent if path.name in (VECTORS, BILM) else path)


def distinct_names(described: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """A name for each item; items differ in their paths or in their (nested) fields.

    A name is the shortest end of the path (in whole parts) that no other path ends in. Items with
    the same path also show the fields in which they differ.
    """
    paths = {path for path, _ in described}
    flat = [(path, flatten(fields)) for path, fields in described]
    return [
        _shortest_end(path, paths - {path})
        + _differing(fields, [others for other, others in flat if other == path])
        for path, fields in flat
    ]


def _shortest_end(path: str, others: Collection[str]) -> str:
    """The shortest end that none of the other paths has, or else the whole path."""
    parts = path.split("/")
    for count in range(1, len(parts)):
        end = "/".join(parts[-count:])
        if not any(f"/{other}".endswith(f"/{end}") for other in others):
            return end
    return path


def _differing(fields: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> str:
    differing = [
        f"{name}={mask_secrets(repr(value))}"
        for name, value in fields.items()
        if any(other.get(name, ...) != value for other in others)
    ]
    return f" ({', '.join(differing)})" if differing else ""
