"""The losses of a training's first steps, which are to agree between devices."""

from benchmarks.alone.packed import Packed
from benchmarks.alone.training import make_trainer
from models.configs.variant import VariantConfig
from models.trainer import Reading


def first_losses(variant: VariantConfig, packed: Packed, steps: int) -> list[float]:
    """The loss of each of the first steps, nats. Without dropout, whose random numbers differ from
    device to device, the weights and the batches are the same on all."""
    trainer = make_trainer(variant.with_changes(dropout=0.0), packed)
    losses: list[float] = []

    def keep(reading: Reading) -> bool:
        losses.extend(reading.nlls)
        return len(losses) < steps

    while len(losses) < steps:
        trainer.train_epoch(packed.train, packed.types, keep)
    return losses[:steps]
