"""The optimizer, and how large each of its steps is."""

from __future__ import annotations

import torch
from torch import nn

from models.configs.variant import TrainingConfig


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """One call of each arithmetic operation for all parameters, or on GPUs one for everything."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, config.learning_rate, fused=True)
    return torch.optim.Adadelta(
        parameters, config.learning_rate, rho=config.rho, eps=config.epsilon, foreach=True
    )


def learning_rate(config: TrainingConfig, step: int, epochs_done: float) -> float:
    """The rate of the step after `step` others, when so many epochs, fractions counted, are done.

    It rises in equal parts over the first `warmup_steps` (Goyal et al., 2017, §2.2). A "linear"
    schedule falls with what is left of all `epochs`, whatever else may end the training sooner.
    """
    rate = config.learning_rate * min(1.0, (step + 1) / max(1, config.warmup_steps))
    if config.schedule == "linear":
        rate *= 1 - epochs_done / config.epochs
    return rate
