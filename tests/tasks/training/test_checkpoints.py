"""A training that resumes from a checkpoint continues as if it had never stopped."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.span_decoding import Predictions
from models.trainer import Reading, Trainer
from tasks.training.checkpoints import (
    TrainingRecord,
    averaged_weights,
    load_predictions,
    load_record,
    resume_from,
    save_checkpoint,
)
from tests.factories.models import make_examples, make_model, make_types, small

HISTORY: list[dict[str, Any]] = [
    {"epoch": 1, "train/nll": 0.1 + 0.2, "dev/f1": 61.25},
    {"epoch": 2, "train/nll": 1e-17, "dev/f1": 63.0},
]
RECORD = TrainingRecord(HISTORY, "all 2 epoch(s) were completed", loop_seconds=1 / 3)
PREDICTIONS = Predictions(
    span_start=np.array([0, -1, 7]),
    span_end=np.array([2, -1, 7]),
    span_score=np.array([-0.1, -1e-300, -np.inf]),
    no_answer_score=np.array([-np.inf, 0.0, -1 / 3]),
)


EXAMPLES, TYPES = make_examples([3, 8, 5] * 4, [1, 2, 3, 4] * 3), make_types()


def trainer(optimizer: str, seed: int, rank: int = 0, workers: int = 1) -> Trainer:
    variant = small("char", optimizer=optimizer, learning_rate=0.01)
    model = make_model(variant, seed)
    return Trainer(model, variant.training, rank=rank, world_size=workers)


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Whether all tensors are bitwise equal."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def state(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.tensors().items()}


@pytest.mark.parametrize("optimizer", ["adadelta", "adam"])
def test_resumed_training_is_bitwise_identical(optimizer: str, tmp_path: Path) -> None:
    whole, resumed = trainer(optimizer, seed=1), trainer(optimizer, seed=2)
    whole.train_epoch(EXAMPLES, TYPES)
    save_checkpoint(tmp_path, whole, RECORD, PREDICTIONS)
    at_checkpoint = state(whole)
    whole.train_epoch(EXAMPLES, TYPES)
    torch.manual_seed(3)

    assert resume_from(tmp_path, resumed) == RECORD
    assert equal(state(resumed), at_checkpoint)
    assert (resumed.step, resumed.epoch, resumed.position) == (3, 1, 0)
    resumed.train_epoch(EXAMPLES, TYPES)
    assert equal(state(resumed), state(whole))
    assert not equal(state(resumed), at_checkpoint)


def test_resume_restores_the_thread_count(tmp_path: Path) -> None:
    """At these sizes torch divides sums among threads, so rounding depends on their number."""
    variant = small("char", hidden_size=100, batch_size=16, dropout=0.3)
    examples, types = make_examples([40 + i for i in range(64)]), make_types()
    whole, resumed = (Trainer(make_model(variant), variant.training) for _ in range(2))

    def keep(reading: Reading) -> bool:
        if reading.epoch_step == 2:
            save_checkpoint(tmp_path, whole, TrainingRecord(), None)
        return True

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        whole.train_epoch(examples, types, keep)
        torch.set_num_threads(2)
        resume_from(tmp_path, resumed)
        resumed.train_epoch(examples, types)
    finally:
        torch.set_num_threads(before)
    assert equal(state(resumed), state(whole))


def test_record_and_predictions_round_trip(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, trainer("adam", seed=1), RECORD, PREDICTIONS)
    assert load_record(tmp_path) == RECORD
    for name, array in vars(load_predictions(tmp_path / "predictions.safetensors")).items():
        expected = getattr(PREDICTIONS, name)
        assert array.dtype == expected.dtype
        assert np.array_equal(array, expected)


def test_each_worker_resumes_its_own_random_state(tmp_path: Path) -> None:
    drawn = []
    for rank in range(2):
        worker = trainer("adam", seed=1, rank=rank, workers=2)
        torch.manual_seed(7 + rank)
        save_checkpoint(tmp_path, worker, RECORD, None)
        drawn.append(torch.rand(3))
    for rank in range(2):
        torch.manual_seed(99)
        resume_from(tmp_path, trainer("adam", seed=2, rank=rank, workers=2))
        assert torch.equal(torch.rand(3), drawn[rank])
    assert not torch.equal(*drawn)


def test_other_worker_count_keeps_current_random_state(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, trainer("adam", seed=1), RECORD, None)
    fewer = trainer("adam", seed=2, rank=1, workers=2)
    torch.manual_seed(5)
    resume_from(tmp_path, fewer)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(3))


def test_averaged_weights_load_into_the_model(tmp_path: Path) -> None:
    trained = trainer("adam", seed=1)
    trained.train_epoch(EXAMPLES, TYPES)
    save_checkpoint(tmp_path, trained, RECORD, PREDICTIONS)
    weights = averaged_weights(tmp_path)
    assert equal(weights, trained.averages.averaged)
    assert not equal(weights, {n: p.detach() for n, p in trained.model.named_parameters()})
    trainer("adam", seed=2).model.load_state_dict(weights)


def test_checkpoints_contain_no_pickle(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, trainer("adam", seed=1), RECORD, PREDICTIONS)
    for file in tmp_path.iterdir():
        content = file.read_bytes()
        if file.suffix == ".safetensors":  # a JSON header after its length
            length = int.from_bytes(content[:8], "little")
            content = content[8 : 8 + length]
        assert isinstance(json.loads(content), dict), file.name
