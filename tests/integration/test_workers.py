"""Workers in separate processes, whose gradients are reduced as in a real training."""

from pathlib import Path

import pytest
import torch
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

from models.trainer import Reading, Trainer
from tasks.training.ray_workers import DATA_PARALLEL
from tests.factories.models import make_examples, make_model, make_types, small

pytestmark = [pytest.mark.heavy, pytest.mark.full]

WORKERS = 3
"""The sum of more than two floating-point numbers depends on their order."""

VARIANT = small("char", batch_size=6, dropout=0.3)


def trainer(rank: int) -> Trainer:
    """The trainer of one worker, before its first step."""
    distributed = Trainer(
        make_model(VARIANT),
        VARIANT.training,
        wrap=lambda model: DistributedDataParallel(model, **DATA_PARALLEL),
        all_reduce=torch.distributed.all_reduce,
        rank=rank,
        world_size=WORKERS,
    )
    torch.manual_seed(rank)
    return distributed


def resume(rank: int, store: Path) -> None:
    """Run in each worker: train an epoch, resume it from the middle, and compare the results."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=store.as_uri(), rank=rank, world_size=WORKERS
    )
    examples, types = make_examples([4 + i % 9 for i in range(60)]), make_types()
    whole = trainer(rank)
    kept = []

    def keep(reading: Reading) -> bool:
        if reading.step == 4:
            tensors = {name: tensor.clone() for name, tensor in whole.tensors().items()}
            kept.append((tensors, whole.random_state(), whole.counters()))
        return True

    whole.train_epoch(examples, types, keep)
    resumed = trainer(rank)
    resumed.resume(*kept[0])
    resumed.train_epoch(examples, types)
    actual, expected = resumed.tensors(), whole.tensors()
    torch.distributed.destroy_process_group()
    assert [name for name in expected if not torch.equal(actual[name], expected[name])] == []


def test_three_resumed_workers_are_bitwise_identical(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(resume, (tmp_path / "store",), WORKERS)
