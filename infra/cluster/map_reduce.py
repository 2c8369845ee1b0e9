"""Functions of many items, on all nodes of the Ray cluster or on this machine, in order.

Results and errors are those of a loop over the items, however the items are cut into shards and
wherever these are processed.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import TypeVar

# Ray is imported where it is used: it takes seconds to load, and the processes of a pool, which
# import this module, do not need it.

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_shards(
    items: Iterable[Item], size: Callable[[Item], int], least: int
) -> Iterator[list[Item]]:
    """Yield lists of consecutive items, each of which has a total size of at least `least`.

    The last list may be smaller. An error of the iterable is raised after the items before it.
    """
    shard: list[Item] = []
    total = 0
    try:
        for item in items:
            shard.append(item)
            total += size(item)
            if total >= least:
                yield shard
                shard, total = [], 0
    except Exception:
        if shard:
            yield shard
        raise
    if shard:
        yield shard


def map_on_cluster(
    function: Callable[[Item], Result], items: Iterable[Item], processes: int = 1
) -> Iterator[Result]:
    """Yield function(item) for every item, in the order of the items.

    If a cluster is named (RAY_ADDRESS) or connected, its nodes compute the results; else
    `processes` processes of this machine, or this process alone. About twice as many items as there
    are CPUs are in progress or wait for their turn, so memory is bounded. Items, results and the
    function travel to other nodes, so they must hold what they need, and no paths of this machine.

    An error of the function is raised as it is, and one of the iterable after the results of the
    items before it: the first error in the order of the items is raised, wherever it occurs.
    """
    from infra.cluster.ray_cluster import is_connected, is_remote

    if is_remote() or is_connected():
        yield from _map_on_ray(function, items)
    elif processes > 1:
        yield from _map_in_pool(function, items, processes)
    else:
        yield from map(function, items)


def _map_on_ray(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    import ray
    from ray.exceptions import RayTaskError

    from infra.cluster.ray_cluster import connect

    connect()
    task = ray.remote(_apply)
    stored = ray.put(function)  # once, however much it holds
    try:
        yield from _in_order(
            lambda item: task.remote(stored, item).future(),
            items,
            lambda: 2 * int(ray.cluster_resources().get("CPU", 1)),  # a cluster may grow meanwhile
        )
    except RayTaskError as error:
        raise error.cause from error


def _apply(function: Callable[[Item], Result], item: Item) -> Result:
    return function(item)


def _map_in_pool(
    function: Callable[[Item], Result], items: Iterable[Item], processes: int
) -> Iterator[Result]:
    # Forking a process that runs Prefect's threads may deadlock; spawning is safe.
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_end_with_parent)
    try:
        yield from _in_order(lambda item: pool.submit(function, item), items, lambda: 3 * processes)
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Exit this process of a pool when its parent is killed; otherwise it would wait forever."""
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _in_order(
    start: Callable[[Item], Future[Result]], items: Iterable[Item], most: Callable[[], int]
) -> Iterator[Result]:
    """Yield the results in the order of the items, at most `most()` of which are in progress."""
    waiting: deque[Future[Result]] = deque()
    for begun in _begun(start, items):
        waiting.append(begun)
        if len(waiting) >= most():
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _begun(
    start: Callable[[Item], Future[Result]], items: Iterable[Item]
) -> Iterator[Future[Result]]:
    """Start each item. An error of the iterable takes its turn like an item's."""
    try:
        for item in items:
            yield start(item)
    except Exception as error:
        failed: Future[Result] = Future()
        failed.set_exception(error)
        yield failed
