"""The training loop over arrays, and prediction: knows nothing of files, clusters or trackers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.batching import (
    Batch,
    Examples,
    IntArray,
    Types,
    make_batch,
    shuffled_batches,
    sorted_batches,
)
from models.bidaf import BiDAF
from models.config import TrainingConfig
from models.decoding import Predictions, best_spans

EVALUATION_TOKENS = 32_768
"""Context tokens in one batch of prediction, padding included: bounds memory on long contexts."""


@dataclass(frozen=True)
class Step:
    """What one optimisation step looked like."""

    number: int  # from 0, over all epochs
    of_epoch: int
    steps_in_epoch: int
    nll: float  # mean over this worker's examples, nats, start + end
    examples_per_second: float  # since the epoch began, over all workers


@dataclass(frozen=True)
class Epoch:
    """What one pass over the training examples cost and brought."""

    nll: float  # mean, nats
    examples_per_second: float
    seconds: float
    padding_ratio: float  # share of the contexts' positions that hold padding


class AveragedWeights:
    """Exponential moving average of the trained weights, warmed up by min(d, (1 + n)/(10 + n))
    as in the CS224n starter."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.live = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self.averaged = {n: p.detach().clone() for n, p in self.live.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move the averages towards the weights; `step` counts from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        averaged: list[Tensor] = list(self.averaged.values())
        live: list[Tensor] = list(self.live.values())
        torch._foreach_lerp_(averaged, live, 1 - decay)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Put the averages in the model's place for the length of the block."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, live in self.live.items():
            kept = live.clone()
            live.copy_(self.averaged[name])
            self.averaged[name].copy_(kept)


def span_nll(start: Tensor, end: Tensor, batch: Batch) -> Tensor:
    """Negative log-likelihood of each example's span: (B,), nats, start + end."""
    return F.cross_entropy(start, batch.start, reduction="none", ignore_index=-1) + F.cross_entropy(
        end, batch.end, reduction="none", ignore_index=-1
    )


def _optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    parameters = [p for p in model.parameters() if p.requires_grad]
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, config.learning_rate)
    return torch.optim.Adadelta(
        parameters, config.learning_rate, rho=config.rho, eps=config.epsilon
    )


class Trainer:
    """Trains a BiDAF on one worker of `world_size`; all workers together see the same global
    batches, in the same order, whatever their number."""

    def __init__(
        self,
        model: BiDAF,
        config: TrainingConfig,
        *,
        wrap: Callable[[nn.Module], nn.Module] = lambda module: module,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """`wrap` puts the model on its device and, where there are several workers, makes it
        average their gradients (Ray Train's `prepare_model`, or DistributedDataParallel)."""
        self.model = model
        self.wrapped = wrap(model)
        self.device = next(model.parameters()).device
        self.config = config
        self.rank, self.world_size = rank, world_size
        self.optimizer = _optimizer(model, config)
        self.averages = AveragedWeights(model, config.ema_decay)
        self.step = 0
        self.epoch = 0

    def train_epoch(
        self, examples: Examples, types: Types, on_step: Callable[[Step], None] = lambda step: None
    ) -> Epoch:
        """One pass over every trainable example; afterwards `epoch` is one higher.

        Raises:
            ValueError: no example can be trained on.
        """
        config = self.config
        rows = examples.trainable(config.max_context_tokens, config.max_question_tokens)
        lengths = examples.context_lengths[rows]
        batches = shuffled_batches(lengths, config.batch_size, config.seed, self.epoch)
        self.wrapped.train()
        began, seen, total, padded = time.perf_counter(), 0, 0.0, 0
        for i, positions in enumerate(batches):
            nll = self._train_step(examples, types, rows[positions])
            seen += len(positions)
            total += nll * len(positions)
            padded += int(lengths[positions].max()) * len(positions)
            speed = seen / (time.perf_counter() - began)
            on_step(Step(self.step - 1, i + 1, len(batches), nll, speed))
        self.epoch += 1
        seconds = time.perf_counter() - began
        return Epoch(total / seen, seen / seconds, seconds, 1 - float(lengths.sum()) / padded)

    def _share(self, rows: IntArray) -> tuple[IntArray, float]:
        """This worker's rows of a global batch, and the weight of each in its loss.

        A worker that gets none runs one row with weight 0, so that no other waits for it.
        """
        mine = rows[self.rank :: self.world_size]
        if len(mine) == 0:
            return rows[:1], 0.0
        return mine, self.world_size / len(rows)

    def _train_step(self, examples: Examples, types: Types, rows: IntArray) -> float:
        mine, weight = self._share(rows)
        batch = make_batch(examples, types, mine, self.model.max_characters).to(self.device)
        start, end = self.wrapped(batch)
        nll = span_nll(start, end, batch)
        self.optimizer.zero_grad(set_to_none=True)
        # Workers' gradients are averaged: sum · world size / global batch is the global mean.
        torch.autograd.backward(nll.sum() * weight)
        if self.config.clip_norm:
            nn.utils.clip_grad_norm_(self.averages.live.values(), self.config.clip_norm)
        self.optimizer.step()
        self.averages.update(self.step)
        self.step += 1
        return float(nll.detach().mean())

    def predict(
        self, examples: Examples, types: Types, allow_no_answer: bool
    ) -> tuple[Predictions, float]:
        """Predictions of the averaged weights for every example, and the mean NLL of those that
        have a target."""
        with self.averages.in_use():
            return predict(
                self.model, examples, types, self.config.max_answer_tokens, allow_no_answer
            )

    def tensors(self) -> dict[str, Tensor]:
        """Everything a resumed training needs that is a tensor: weights raw and averaged, the
        optimiser's state, the state of the random generator. They are the live ones: save them
        before the next step."""
        out = {f"weights.{n}": p.detach() for n, p in self.averages.live.items()}
        out |= {f"averaged.{n}": p for n, p in self.averages.averaged.items()}
        for i, state in self.optimizer.state_dict()["state"].items():
            out |= {f"optimizer.{i}.{name}": value for name, value in state.items()}
        if self.device.type == "cuda":
            out["random.cuda"] = torch.cuda.get_rng_state(self.device)
        return out | {"random.cpu": torch.get_rng_state()}

    def counters(self) -> dict[str, int]:
        """Everything a resumed training needs that is a number."""
        return {"step": self.step, "epoch": self.epoch}

    @torch.no_grad()
    def resume(self, tensors: dict[str, Tensor], counters: dict[str, int]) -> None:
        """Continue where `tensors()` and `counters()` were taken."""
        for name, live in self.averages.live.items():
            live.copy_(tensors[f"weights.{name}"])
            self.averages.averaged[name].copy_(tensors[f"averaged.{name}"])
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            kind, _, rest = name.partition(".")
            if kind == "optimizer":
                index, _, field = rest.partition(".")
                state.setdefault(int(index), {})[field] = value.clone()
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})
        torch.set_rng_state(tensors["random.cpu"])
        if "random.cuda" in tensors and self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)
        self.step, self.epoch = counters["step"], counters["epoch"]


@torch.no_grad()
def predict(
    model: BiDAF, examples: Examples, types: Types, max_answer_tokens: int, allow_no_answer: bool
) -> tuple[Predictions, float]:
    """The answer to every example, in order, and the mean NLL (nats) of those with a target."""
    n = len(examples)
    spans = np.full((2, n), -1, dtype=np.int64)
    scores = np.zeros((2, n))
    nll, targets = 0.0, 0
    model.eval()
    device = next(model.parameters()).device
    for rows in sorted_batches(examples.context_lengths, EVALUATION_TOKENS):
        batch = make_batch(examples, types, rows, model.max_characters).to(device)
        start, end = model(batch)
        first, last, score, no_answer = best_spans(start, end, max_answer_tokens, allow_no_answer)
        spans[:, rows] = torch.stack([first, last]).cpu().numpy() - 1
        scores[:, rows] = torch.stack([score, no_answer.exp()]).cpu().numpy()
        nll += float(span_nll(start, end, batch).sum())
        targets += int((batch.start >= 0).sum())
    predictions = Predictions(spans[0], spans[1], scores[0], scores[1])
    return predictions, nll / targets if targets else float("nan")
