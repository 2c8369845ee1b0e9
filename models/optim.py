"""The optimiser, its learning rate, and the averaged weights, which are evaluated and served
instead of the last step's weights."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

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
    schedule falls linearly to 0 over the last `decay_epochs` of `epochs` (by default over all of
    them), even if training may end sooner for another reason.
    """
    rate = config.learning_rate * min(1.0, (step + 1) / max(1, config.warmup_steps))
    if config.schedule == "linear":
        decay_epochs = min(config.decay_epochs or config.epochs, config.epochs)
        rate *= min(1.0, (config.epochs - epochs_done) / decay_epochs)
    return rate


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state for a checkpoint, as live tensors: optimizer.<parameter>.<name>."""
    return {
        f"optimizer.{i}.{name}": value
        for i, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state that `optimizer_tensors` returned; other tensors are ignored."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in with_prefix(tensors, "optimizer.").items():
        index, key = name.split(".")
        state.setdefault(int(index), {})[key] = value.clone()
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with the prefix, by the rest of their names."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


class AveragedWeights:
    """Exponential moving average of the trained weights, whose decay is warmed up as
    min(d, (1 + n)/(10 + n)), as in the CS224n starter."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.live = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self.averaged = {n: p.detach().clone() for n, p in self.live.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Update the averages from the current weights; `step` counts from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.averaged.values()), list(self.live.values()), 1 - decay)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Swap the averages into the model for the duration of the block."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, live in self.live.items():
            previous = live.clone()
            live.copy_(self.averaged[name])
            self.averaged[name].copy_(previous)
