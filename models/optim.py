"""The optimiser and its learning rate."""

from __future__ import annotations

import torch
from torch import nn

from models.configs.variant import TrainingConfig


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Optimiser of the trainable parameters. It runs each arithmetic operation in one call for all
    parameters (`foreach`), or the whole update in one call (`fused`)."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, config.learning_rate, fused=True)
    return torch.optim.Adadelta(
        parameters, config.learning_rate, rho=config.rho, eps=config.epsilon, foreach=True
    )


def learning_rate(config: TrainingConfig, step: int, epochs_done: float) -> float:
    """Learning rate of the next step, after `step` steps and `epochs_done` epochs (fractional).

    It rises linearly over the first `warmup_steps` (Goyal et al., 2017, §2.2). The "linear"
    schedule falls in proportion to the share of `epochs` left, even if training may end sooner for
    another reason.
    """
    rate = config.learning_rate * min(1.0, (step + 1) / max(1, config.warmup_steps))
    if config.schedule == "linear":
        rate *= 1 - epochs_done / config.epochs
    return rate
