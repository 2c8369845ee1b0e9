"""Resource requests to a real Ray cluster whose node declares a GPU that does not exist."""

from collections.abc import Iterator

import pytest
import ray

from infra.artifacts.manifest import identity
from infra.cluster.allotment import (
    Allotment,
    NodeResources,
    Resources,
    allot,
    gpu_fraction,
    most_cpus,
    nodes_for,
    room,
    torch_sees_a_gpu,
    with_parallel_trainings,
)
from infra.errors import UserError

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def node_with_a_gpu() -> Iterator[None]:
    """A local cluster of 4 declared CPUs and 1 declared GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "-1")  # torch sees no GPU even if there is one
        ray.init(address="local", num_cpus=4, num_gpus=1, object_store_memory=80 * 2**20)
    yield
    ray.shutdown()


def test_cores_do_not_change_the_key() -> None:
    asked = Resources(cpus_per_worker=2, trainings=3)
    assert identity(asked) == identity(Resources()) != identity(Resources(workers=2))
    assert asked.params == {"workers": 1, "cpus_per_worker": 2, "gpu": None}


@pytest.mark.parametrize(
    ("resources", "sentence"),
    [
        (Resources(workers=5, cpus_per_worker=1, gpu=False), "5 worker(s) with 1 CPU"),
        (
            Resources(workers=1, cpus_per_worker=5, gpu=False),
            "1 node(s) with 4 CPU(s) and 1 GPU",
        ),
        (Resources(workers=2, gpu=True), "the cluster has 1 GPU"),
        (Resources(workers=1, gpu=True), "torch sees none"),
    ],
)
def test_rejects_more_resources_than_available(
    node_with_a_gpu: None, resources: Resources, sentence: str
) -> None:
    with pytest.raises(UserError) as raised:
        allot(resources)
    assert sentence in str(raised.value)


def test_driver_that_hangs_does_not_block() -> None:
    assert torch_sees_a_gpu(seconds=0.01) is None, "torch needs longer to load"


@pytest.mark.parametrize(("workers", "per_worker"), [(1, 4), (2, 2), (3, 1)])
def test_unset_cpus_are_divided_among_workers(
    node_with_a_gpu: None, workers: int, per_worker: int
) -> None:
    allotted = allot(Resources(workers=workers))  # torch sees no GPU, so none is allotted
    assert allotted == Allotment(workers=workers, cpus_per_worker=per_worker, gpus_per_worker=0)


@pytest.mark.parametrize(
    ("resources", "trainings", "parallel", "per_worker"),
    [
        (Resources(), 2, 1, 4),  # each training would take the only GPU
        (Resources(gpu=False), 2, 2, 2),
        (Resources(gpu=False), 9, 4, 1),
        (Resources(workers=2, gpu=False), 9, 2, 1),
        (Resources(trainings=3, gpu=False), 1, 3, 1),
    ],
)
def test_parallel_trainings_share_the_cpus(
    node_with_a_gpu: None, resources: Resources, trainings: int, parallel: int, per_worker: int
) -> None:
    shared = with_parallel_trainings(resources, trainings)
    assert (shared.trainings, allot(shared).cpus_per_worker) == (parallel, per_worker)


@pytest.mark.parametrize(
    ("workers", "trainings", "gpus", "per_worker"),
    [
        (1, 1, 1, 1.0),
        (1, 1, 4, 1.0),
        (1, 4, 1, 0.25),
        (1, 3, 2, 0.5),  # with 2/3 of a GPU each, the third training would not fit
        (2, 2, 2, 1.0),  # workers of one training can't share a GPU: the other training waits
    ],
)
def test_single_worker_trainings_share_gpus(
    workers: int, trainings: int, gpus: int, per_worker: float
) -> None:
    assert gpu_fraction(Resources(workers=workers, trainings=trainings), gpus) == per_worker


@pytest.mark.parametrize(
    ("nodes", "cpus", "gpus", "workers"),
    [
        ([(1, 0), (1, 0)], 2, 0, 0),  # two nodes with a core each have no room for two cores
        ([(5, 0), (3, 0)], 2, 0, 3),
        ([(8, 1), (8, 0)], 2, 1, 1),
        ([(8, 1)], 1, 1 / 3, 3),
    ],
)
def test_workers_are_not_spread_over_nodes(
    nodes: list[tuple[int, int]], cpus: int, gpus: float, workers: int
) -> None:
    assert room([NodeResources(*node) for node in nodes], cpus, gpus) == workers


@pytest.mark.parametrize(("workers", "cpus"), [(1, 5), (2, 3), (3, 2), (4, 1), (9, 1)])
def test_each_worker_gets_cores_of_one_node(workers: int, cpus: int) -> None:
    assert most_cpus([NodeResources(5, 0), NodeResources(3, 0)], workers, 0) == cpus


def test_autoscaled_nodes_count_if_they_are_needed(
    node_with_a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIDAFLOW_NODE_GROUPS", '[{"cpus": 16, "nodes": 2}]')
    assert nodes_for(Resources(workers=4)) == [NodeResources(4, 1)]
    assert nodes_for(Resources(workers=5)) == 2 * [NodeResources(16, 0)]
    assert allot(Resources(workers=2, cpus_per_worker=8, gpu=False)).cpus_per_worker == 8
    with pytest.raises(UserError, match="room for 2: it has 2 node"):
        allot(Resources(workers=3, cpus_per_worker=9, gpu=False))
