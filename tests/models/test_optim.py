"""The learning-rate schedule, and that the trainer follows it."""

from typing import Any

import pytest

from models.configs.variant import TrainingConfig
from models.optim import learning_rate
from models.trainer import Reading, Trainer
from tests.factories.models import make_examples, make_model, make_types, small


def rates(steps_in_epoch: int, **changes: object) -> list[float]:
    config = TrainingConfig(epochs=2, learning_rate=0.5, **changes)
    steps = range(2 * steps_in_epoch)
    return [learning_rate(config, step, step / steps_in_epoch) for step in steps]


@pytest.mark.parametrize(
    ("steps", "changes", "expected"),
    [
        (3, {}, [0.5] * 6),
        (2, {"schedule": "linear"}, [0.5, 0.375, 0.25, 0.125]),
        (2, {"schedule": "linear", "decay_epochs": 1}, [0.5, 0.5, 0.5, 0.25]),
        (2, {"schedule": "linear", "decay_epochs": 9}, [0.5, 0.375, 0.25, 0.125]),
        (3, {"warmup_steps": 4}, [0.125, 0.25, 0.375, 0.5, 0.5, 0.5]),
        (1, {"warmup_steps": 1}, [0.5, 0.5]),
        (2, {"schedule": "linear", "warmup_steps": 2}, [0.25, 0.375, 0.25, 0.125]),
    ],
)
def test_warmup_and_decay_are_multiplied(
    steps: int, changes: dict[str, Any], expected: list[float]
) -> None:
    assert rates(steps, **changes) == pytest.approx(expected)


def test_decay_epochs_need_a_decay() -> None:
    with pytest.raises(ValueError, match=r"decay_epochs has no effect with schedule 'constant'"):
        TrainingConfig(decay_epochs=1)


@pytest.mark.parametrize("optimizer", ["adam", "adadelta"])
def test_trainer_follows_its_schedule(optimizer: str) -> None:
    changes = {"schedule": "linear", "warmup_steps": 2, "learning_rate": 0.1}
    variant = small("baseline", batch_size=2, epochs=2, optimizer=optimizer, **changes)
    trainer = Trainer(make_model(variant), variant.training)
    rates_used = []

    def record(reading: Reading) -> bool:
        rates_used.append(trainer.optimizer.param_groups[0]["lr"])
        return True

    for _ in range(2):
        trainer.train_epoch(make_examples([5, 6, 7, 8]), make_types(), record)
    assert rates_used == pytest.approx([0.05, 0.075, 0.05, 0.025])
