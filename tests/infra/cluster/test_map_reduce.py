"""Shards and maps keep the order of the items and of their errors, in one process and in several.

tests/integration/test_two_nodes.py does the same on a cluster.
"""

import os
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cluster.map_reduce import in_shards, map_on_cluster
from infra.errors import UserError


def doubled(number: int) -> int:
    if number < 0:
        raise UserError(f"{number} is negative.")
    return 2 * number


def process_of(number: int) -> int:
    return os.getpid()


def then_failing(items: Iterable[int]) -> Iterator[int]:
    """The items, and then an error."""
    yield from items
    raise UserError("The file ends too early.")


@given(st.lists(st.integers(0, 9)), st.integers(1, 20), st.booleans())
def test_shards_hold_all_items_before_an_error(items: list[int], least: int, fails: bool) -> None:
    shards: list[list[int]] = []
    try:
        for shard in in_shards(then_failing(items) if fails else items, int, least):
            shards.append(shard)
    except UserError:
        assert fails
    assert [item for shard in shards for item in shard] == items
    assert all(sum(shard) >= least > sum(shard[:-1]) for shard in shards[:-1])
    assert all(shards)


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    ("items", "sentence"),
    [([3, 1, -1, 5, -6], "-1 is negative."), ([3, 1], "The file ends too early.")],
)
def test_first_error_in_order_is_raised(processes: int, items: list[int], sentence: str) -> None:
    results: list[int] = []
    with pytest.raises(UserError) as raised:
        results.extend(map_on_cluster(doubled, then_failing(items), processes))
    assert (results, str(raised.value)) == ([6, 2], sentence)


def test_pool_has_other_processes_and_little_waits() -> None:
    taken = 0

    def numbers() -> Iterator[int]:
        nonlocal taken
        while taken < 40:
            taken += 1
            yield taken

    pids = set()
    for done, pid in enumerate(map_on_cluster(process_of, numbers(), processes=2), 1):
        pids.add(pid)
        assert taken <= done + 6
    assert taken == 40
    assert len(pids) in (1, 2) and os.getpid() not in pids
