"""The training loop over arrays, independent of files, clusters and trackers."""

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from models.arrays import IntArray
from models.batching import (
    CONTEXT_STEP,
    Examples,
    ResidentExamples,
    Types,
    padded_width,
    shuffled_batches,
)
from models.bidaf import BiDAF
from models.configs.variant import TrainingConfig
from models.modules.rnn import keep_float32
from models.optim import (
    AveragedWeights,
    learning_rate,
    make_optimizer,
    optimizer_tensors,
    restore_optimizer,
)
from models.predict import predict, span_nll
from models.sliding_windows import select_for_epoch
from models.span_decoding import Predictions

# Steps between readings of the losses, by device type. A GPU has to wait for the host at each
# reading.
STEPS_PER_READING = {"cpu": 1, "cuda": 10}

# The trainer's attributes that a resumed training takes over.
COUNTERS = ("step", "epoch", "position", "nll", "epoch_began")


class Diverged(ArithmeticError):
    """The loss or the predictions are not finite, and will not become finite again."""


@dataclass(frozen=True)
class Reading:
    """Progress of an epoch, and the losses of its latest steps."""

    step: int  # optimisation steps so far, over all epochs
    epoch_step: int  # steps of this epoch so far
    steps_in_epoch: int
    nlls: list[float]  # of the steps since the previous reading: means over the batch, nats
    examples_per_second: float  # since the epoch began, over all workers
    seconds: float  # since training began, by the first worker's clock


@dataclass(frozen=True)
class Epoch:
    """Loss and cost of one pass over the training examples."""

    nll: float  # mean, nats
    examples_per_second: float
    seconds: float
    padding_ratio: float  # share of the contexts' positions that hold padding


def require_deterministic_algorithms() -> None:
    """Let this process use deterministic algorithms only."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # cuBLAS and cuDNN require it
    torch.use_deterministic_algorithms(True)


class Trainer:
    """Trains a BiDAF on one of `world_size` workers. All workers together process the same global
    batches in the same order, whatever their number."""

    def __init__(
        self,
        model: BiDAF,
        config: TrainingConfig,
        *,
        wrap: Callable[[nn.Module], nn.Module] = lambda module: module,
        all_reduce: Callable[[Tensor], Any] = lambda tensor: None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """`wrap` puts the model on its device and, with several workers, makes it average their
        gradients (Ray Train's `prepare_model`, or DistributedDataParallel). `all_reduce` sums a
        tensor over all workers in place (`torch.distributed.all_reduce`)."""
        if config.deterministic:
            require_deterministic_algorithms()
        self.model = model
        self.wrapped = wrap(model)
        self.all_reduce = all_reduce
        self.device = next(model.parameters()).device
        self.config = config
        if config.precision == "float32":
            keep_float32(self.device)
        self.rank, self.world_size = rank, world_size
        self.optimizer = make_optimizer(model, config)
        self.averages = AveragedWeights(model, config.ema_decay)
        self.step = self.epoch = 0
        self.position = 0  # finished batches of this epoch
        self.nll = 0.0  # sum of the NLL over their examples
        self.epoch_began = 0.0  # seconds since training began
        self._unread: list[Tensor] = []
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since training began, excluding the time between checkpoint and resumption."""
        return time.perf_counter() - self._began

    def train_epoch(
        self,
        examples: Examples,
        types: Types,
        should_continue: Callable[[Reading], bool] = lambda reading: True,
    ) -> Epoch:
        """One pass over every trainable example, or over the rest of it after a resumption.

        `should_continue` is called after every step on a CPU and after every ten steps on a GPU. If
        it returns False, the pass ends early; `epoch` increases by one then as well.

        Raises:
            ValueError: no example can be trained on.
            Diverged: a loss is not finite. All workers raise it, before they call
                `should_continue`.
        """
        config = self.config
        examples, rows = select_for_epoch(examples, config, self.epoch)
        lengths = examples.context_lengths[rows]
        batches = shuffled_batches(lengths, config.batch_size, config.seed, self.epoch)
        resident = ResidentExamples(examples, types, self.model.max_characters, self.device)
        if self.position == 0:
            self.epoch_began = self.seconds
        self.wrapped.train()
        interval = STEPS_PER_READING[self.device.type]
        running = True
        while running and self.position < len(batches):
            epochs_done = self.epoch + self.position / len(batches)
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(config, self.step, epochs_done)
            self._train_step(resident, rows[batches[self.position]])
            self.position += 1
            if self.position % interval == 0 or self.position == len(batches):
                running = should_continue(self._read(batches))
        return self._end_epoch(lengths, batches[: self.position])

    def _share(self, rows: IntArray) -> tuple[IntArray, float]:
        """This worker's rows of a global batch, and the weight of each row in its loss.

        A worker without rows runs one row with weight 0, so that no other worker waits for it.
        """
        own_rows = rows[self.rank :: self.world_size]
        if len(own_rows) == 0:
            return rows[:1], 0.0
        return own_rows, self.world_size / len(rows)

    def _train_step(self, resident: ResidentExamples, rows: IntArray) -> None:
        own_rows, weight = self._share(rows)
        batch = resident.batch(own_rows)
        with torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16"
        ):
            start, end = self.wrapped(batch)
        # Workers' gradients are averaged; sum · world size / global batch gives the global mean.
        loss = span_nll(start.float(), end.float(), batch.start, batch.end).sum() * weight
        penalty = self.model.mix_penalty()
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss if penalty is None else loss + penalty)
        if self.config.clip_norm:
            nn.utils.clip_grad_norm_(
                self.averages.live.values(), self.config.clip_norm, foreach=True
            )
        self.optimizer.step()
        self.averages.update(self.step)
        self.step += 1
        self._unread.append(loss.detach())

    def _read(self, batches: Sequence[IntArray]) -> Reading:
        """Exchange the losses since the last reading and the first worker's clock, for all
        workers."""
        clock = torch.tensor([self.seconds if self.rank == 0 else 0.0], dtype=torch.float64)
        losses = torch.stack(self._unread).double() / self.world_size
        totals = torch.cat([losses, clock.to(self.device)])
        self.all_reduce(totals)
        *nlls, seconds = totals.tolist()
        self._unread.clear()
        for step, nll in enumerate(nlls, self.step - len(nlls) + 1):
            if not math.isfinite(nll):
                raise Diverged(f"the loss of step {step} is {nll}")
        completed = batches[: self.position]
        self.nll += sum(
            nll * len(batch) for nll, batch in zip(nlls, completed[-len(nlls) :], strict=True)
        )
        speed = sum(map(len, completed)) / (self.seconds - self.epoch_began)
        return Reading(self.step, self.position, len(batches), nlls, speed, seconds)

    def _end_epoch(self, lengths: IntArray, batches: Sequence[IntArray]) -> Epoch:
        seen = sum(map(len, batches))
        tokens = seen + int(lengths[np.concatenate(batches)].sum())  # null tokens included
        positions = sum(padded_width(lengths[b], CONTEXT_STEP) * len(b) for b in batches)
        seconds = self.seconds - self.epoch_began
        epoch = Epoch(self.nll / seen, seen / seconds, seconds, 1 - tokens / positions)
        self.epoch, self.position, self.nll = self.epoch + 1, 0, 0.0
        return epoch

    def predict(
        self, examples: Examples, types: Types
    ) -> tuple[Predictions, npt.NDArray[np.float64]]:
        """Predictions of the averaged weights for every example, and the NLL of their targets (n,);
        see `models.predict.predict`. Each worker computes a share and receives all results.

        Raises:
            Diverged: an answer has no finite probability, for example after too large a last step.
        """
        with self.averages.in_use():
            share, nlls = predict(
                self.model,
                examples,
                types,
                self.config.max_answer_tokens,
                self.config.window,
                batches=slice(self.rank, None, self.world_size),
            )
        columns = [share.span_start, share.span_end, share.span_score, share.no_answer_score, nlls]
        totals = torch.from_numpy(np.stack(columns)).to(self.device)
        self.all_reduce(totals)
        start, end, score, no_answer, nlls = totals.cpu().numpy()
        if not np.isfinite(no_answer).all():
            raise Diverged(f"the answer probabilities are not finite after step {self.step}")
        return Predictions(start.astype(np.int64), end.astype(np.int64), score, no_answer), nlls

    def tensors(self) -> dict[str, Tensor]:
        """Tensors that a resumed training needs and that all workers share: the raw and averaged
        weights, and the optimiser's state. They are live: save them before the next step."""
        out = {f"weights.{n}": p.detach() for n, p in self.averages.live.items()}
        out |= {f"averaged.{n}": p for n, p in self.averages.averaged.items()}
        return out | optimizer_tensors(self.optimizer)

    def random_state(self) -> dict[str, Tensor]:
        """State of this worker's own random generators."""
        if self.device.type == "cpu":
            return {"cpu": torch.get_rng_state()}
        return {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state(self.device)}

    def counters(self) -> dict[str, float]:
        """Numbers that a resumed training needs."""
        return {name: getattr(self, name) for name in (*COUNTERS, "seconds")}

    @torch.no_grad()
    def resume(
        self,
        tensors: dict[str, Tensor],
        random_state: dict[str, Tensor],
        counters: dict[str, Any],
    ) -> None:
        """Continue from the state that `tensors()`, `random_state()` and `counters()` returned. An
        empty `random_state`, as for a new worker, keeps the worker's own."""
        restore_optimizer(self.optimizer, tensors)
        for name, live in self.tensors().items():
            live.copy_(tensors[name])
        if random_state:
            torch.set_rng_state(random_state["cpu"])
        if "cuda" in random_state and self.device.type == "cuda":
            torch.cuda.set_rng_state(random_state["cuda"], self.device)
        for name in COUNTERS:
            setattr(self, name, counters[name])
        self._began = time.perf_counter() - counters["seconds"]
