"""The learning-rate schedule, and that the trainer follows it."""

import pytest

from models.configs.variant import TrainingConfig
from models.optim import learning_rate
from models.trainer import Reading, Trainer
from tests.factories.models import make_examples, make_model, make_types, small


def rates(steps_in_epoch: int, **changes: object) -> list[float]:
    config = TrainingConfig(epochs=2, learning_rate=0.5, **changes)
    steps = range(2 * steps_in_epoch)
    return [learning_rate(config, step, step / steps_in_epoch) for step in steps]


def test_constant_schedule_keeps_the_learning_rate() -> None:
    assert rates(3) == [0.5] * 6


def test_linear_decay_ends_at_zero() -> None:
    assert rates(2, schedule="linear") == pytest.approx([0.5, 0.375, 0.25, 0.125])


def test_decay_can_be_limited_to_the_last_epochs() -> None:
    assert rates(2, schedule="linear", decay_epochs=1) == pytest.approx([0.5, 0.5, 0.5, 0.25])
    assert rates(2, schedule="linear", decay_epochs=9) == rates(2, schedule="linear")
    with pytest.raises(ValueError, match=r"decay_epochs has no effect with schedule 'constant'"):
        TrainingConfig(decay_epochs=1)


def test_warmup_rises_linearly_then_stays_constant() -> None:
    assert rates(3, warmup_steps=4) == pytest.approx([0.125, 0.25, 0.375, 0.5, 0.5, 0.5])
    assert rates(1, warmup_steps=1) == [0.5, 0.5]


def test_warmup_and_decay_are_multiplied() -> None:
    actual = rates(2, schedule="linear", warmup_steps=2)
    assert actual == pytest.approx([0.25, 0.375, 0.25, 0.125])


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
