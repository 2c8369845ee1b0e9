"""Short names for compared items, just long enough to be distinct."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.common.data_files import name_of_data
from flows.common.parameters import DataParameters, VectorParameters
from infra.errors import UserError
from tasks.embeddings.formats.store import VECTORS
from tasks.tracking.runs import flatten


def require_each_once(field: str, given: Sequence[Any]) -> None:
    """Refuse a list of parameters with duplicates.

    Raises:
        UserError: an item occurs twice.
    """
    if any(one in given[:number] for number, one in enumerate(given)):
        raise UserError(f"{field} holds something twice: name each once.")


def names_of_data(data: Sequence[DataParameters]) -> list[str]:
    """A name for each dataset: the name of its runs, extended as far as needed to be distinct."""
    places = [Path(one.dataset).parent / name_of_data(one) for one in data]
    return distinct_names(
        [(str(place), one.model_dump()) for place, one in zip(places, data, strict=True)]
    )


def names_of_vectors(vectors: Sequence[VectorParameters]) -> list[str]:
    """A name for each set of vectors, extended as far as needed to be distinct.

    It is the name of its file, of its folder if it was trained here, or of its training method.
    """
    return distinct_names([(_place_of(one.source), one.model_dump()) for one in vectors])


def _place_of(source: str) -> str:
    path = Path(source)
    return str(path.resolve().parent if path.name == VECTORS else path)


def distinct_names(described: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """A name for each item; items differ in their paths or in their (nested) fields.

    A name is the shortest end of the path (in whole parts) that no other path ends in. Items with
    the same path also show the fields in which they differ.
    """
    ends = _distinct_ends([path for path, _ in described])
    flat = [flatten(fields) for _, fields in described]
    alike: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for end, fields in zip(ends, flat, strict=True):
        alike[end].append(fields)
    return [end + _differing(fields, alike[end]) for end, fields in zip(ends, flat, strict=True)]


def _distinct_ends(paths: Sequence[str]) -> list[str]:
    split = {path: path.split("/") for path in paths}

    def end(path: str) -> str:
        for count in range(1, len(split[path])):
            last = split[path][-count:]
            if [parts[-count:] for parts in split.values()].count(last) == 1:
                return "/".join(last)
        return path

    return [end(path) for path in paths]


def _differing(fields: Mapping[str, Any], alike: Sequence[Mapping[str, Any]]) -> str:
    told = [
        f"{name}={value!r}"
        for name, value in fields.items()
        if any(other.get(name, ...) != value for other in alike)
    ]
    return f" ({', '.join(told)})" if told else ""
