"""Functions of many items, on all nodes of the Ray cluster."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import ray

from infra.cluster.ray_cluster import connect, is_connected, is_remote

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_on_cluster(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield function(item) for every item, on the cluster if one is named or connected.

    There, about twice as many items as it has CPUs are in progress at a time, and results come in
    any order. Without a cluster, the items are processed here, one after the other.
    """
    if not (is_remote() or is_connected()):
        yield from map(function, items)
        return
    connect()
    task = ray.remote(function)
    max_running = 2 * int(ray.cluster_resources().get("CPU", 1))
    running: list[ray.ObjectRef] = []
    for item in items:
        running.append(task.remote(item))
        if len(running) >= max_running:
            (done,), running = ray.wait(running)
            yield ray.get(done)
    yield from map(ray.get, running)
