"""Brings the rows of a table into the order of their articles: a database's export, or a shuffled
table, has the rows of an article apart."""

import pickle
from array import array
from collections.abc import Callable, Iterable, Iterator
from tempfile import TemporaryFile
from typing import Any, TypeVar

import numpy as np

from models.arrays import IntArray

Row = TypeVar("Row")


def article_order(records: Iterable[Any]) -> IntArray | None:
    """The numbers of the rows, from 0, with those of each article, and of each of its contexts,
    together, in the order of their first rows; None if this is their order in the file.

    A row without a title or a context stays in its place. Memory holds 16 bytes a row, and some 40
    more while they are sorted.
    """
    articles, contexts = array("q"), array("q")
    for number, record in enumerate(records):
        match record:
            case {"title": str(title), "context": str(context)} if title:
                # Equal in this process only, which is all that an order needs.
                articles.append(hash(title))
                contexts.append(hash((title, context)))
            case _:
                articles.append(number)
                contexts.append(number)
    order = np.lexsort((_first_rows(contexts), _first_rows(articles)))
    return None if np.array_equal(order, np.arange(len(order))) else order


def _first_rows(values: "array[int]") -> IntArray:
    """For each row, the number of the first one with the same value."""
    _, first, position = np.unique(values, return_index=True, return_inverse=True)
    rows: IntArray = first[position]
    return rows


def in_order(
    rows: Iterable[Row], order: IntArray | None, report_share: Callable[[float], None]
) -> Iterator[Row]:
    """Yield rows in an order, from a temporary file; None: in their own, as they are read."""
    if order is None:
        yield from rows
        return
    places = array("q")
    with TemporaryFile() as spool:  # has no name, so no other process reads or writes it
        for row in rows:
            places.append(spool.tell())
            pickle.dump(row, spool)
        for done, number in enumerate(order, 1):
            spool.seek(places[number])
            report_share(done / len(order))
            yield pickle.load(spool)
