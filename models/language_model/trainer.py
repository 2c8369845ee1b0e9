"""The training loop of a bidirectional language model, independent of files and clusters.

Truncated backpropagation through time: the LSTMs' states carry over from window to window.
"""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from models.language_model.config import LMTraining
from models.language_model.corpus import Corpus
from models.language_model.objective import LanguageModel
from models.language_model.streams import Tracks
from models.modules.rnn import keep_float32
from models.optim import optimizer_tensors, restore_optimizer, with_prefix

CLIP_NORM = 1.0
WARMUP_STEPS = 200
WEIGHTS = "weights."  # prefix of their names in a checkpoint
EVALUATIONS = 20  # in a training
LARGEST_LOSS = math.log(sys.float_info.max)  # whose perplexity is a float


@dataclass(frozen=True)
class Perplexities:
    """Mean losses in nats per word, and the perplexities they amount to."""

    forward: float
    backward: float

    @classmethod
    def of(cls, losses: Tensor, text: str) -> Self:
        """The perplexities of a forward and a backward mean loss; errors name them by `text`.

        Raises:
            DivergedLM: a loss is not finite, or its perplexity is too large for a float.
        """
        forward, backward = losses.tolist()
        if not (forward < LARGEST_LOSS and backward < LARGEST_LOSS):  # true for NaN, too
            raise DivergedLM(f"{text} are {forward:g} forward and {backward:g} backward")
        return cls(forward, backward)

    def metrics(self, name: str) -> dict[str, float]:
        """The perplexities under MLflow's metric names, for a split's name."""
        losses = {"forward": self.forward, "backward": self.backward}
        losses["mean"] = (self.forward + self.backward) / 2
        return {f"{name}/perplexity_{key}": math.exp(loss) for key, loss in losses.items()}


class DivergedLM(ArithmeticError):
    """A loss is not finite, or too large, and will not become smaller again."""


class LMTrainer:
    """Trains a language model on one of `world_size` workers, each of which reads some tracks."""

    def __init__(
        self,
        model: LanguageModel,
        corpus: Corpus,
        training: LMTraining,
        *,
        wrap: Callable[[nn.Module], nn.Module] = lambda module: module,
        all_reduce: Callable[[Tensor], Any] = lambda tensor: None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """`wrap` and `all_reduce` as for `models.trainer.Trainer`.

        Raises:
            ValueError: the corpus has too few words.
        """
        self.model, self.training = model, training
        self.wrapped = wrap(model)
        self.all_reduce = all_reduce
        self.device = next(model.parameters()).device
        if training.precision == "float32":
            keep_float32(self.device)
        self.rank, self.world_size = rank, world_size
        self.share = slice(rank, None, world_size)
        self.tracks = Tracks(corpus, training.tracks, training.steps, self.share)
        self.optimizer = torch.optim.Adam(
            model.parameters(), training.learning_rate, betas=(0.9, 0.99), fused=True
        )
        self.total_steps = self.tracks.total_steps(training)
        self.step = 0
        self.states = model.bilm.first_states(self.tracks.rows)
        self.losses = torch.zeros(2, dtype=torch.float64)  # sums since the last reading
        self.unread = 0  # steps since the last reading
        self.seconds = 0.0  # of training, without evaluations

    @property
    def words(self) -> int:
        """Words that all workers have trained on; each counts once for both directions."""
        return self.step * self.tracks.words_per_window

    @property
    def interval(self) -> int:
        """Steps between evaluations."""
        return math.ceil(self.total_steps / EVALUATIONS)

    def train_step(self) -> None:
        """Train on the next window."""
        began = time.perf_counter()
        number = self.step % self.tracks.windows
        if number == 0:
            self.states = self.model.bilm.first_states(self.tracks.rows)
        window = self.tracks.window(number, self.device)
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate()
        self.wrapped.train()
        with self._precision():
            forward, backward, self.states = self.wrapped(
                window.characters, window.tokens, window.targets, self.states
            )
        # Workers with fewer tracks weigh less, so that gradients are those of the global mean.
        weight = self.tracks.rows * self.world_size * self.training.steps
        weighted = (forward + backward) * (weight / self.tracks.words_per_window)
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(weighted)
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP_NORM, foreach=True)
        self.optimizer.step()
        losses = torch.stack([forward, backward]).detach().double().cpu()
        self.losses += losses * (self.tracks.rows * self.training.steps)
        self.step += 1
        self.unread += 1
        self.seconds += time.perf_counter() - began

    def clock(self) -> float:
        """Seconds of training so far by the first worker's clock, equal on all workers."""
        clock = torch.tensor([self.seconds if self.rank == 0 else 0.0], dtype=torch.float64)
        clock = clock.to(self.device)
        self.all_reduce(clock)
        return clock.item()

    def _learning_rate(self) -> float:
        """Rises linearly over the first steps, then falls linearly to 0."""
        warmup = min(1.0, (self.step + 1) / WARMUP_STEPS)
        return self.training.learning_rate * warmup * (1 - self.step / self.total_steps)

    def _precision(self) -> torch.autocast:
        enabled = self.training.precision == "bfloat16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=enabled)

    def read(self) -> Perplexities:
        """The mean training losses since the last call.

        Raises:
            DivergedLM: as `Perplexities.of` does. All workers raise it.
        """
        totals = self.losses.to(self.device)
        self.all_reduce(totals)
        means = totals / (self.unread * self.tracks.words_per_window)
        self.losses.zero_()
        self.unread = 0
        return Perplexities.of(means, f"the training losses up to step {self.step}")

    def evaluate(self, held_out: Corpus) -> Perplexities:
        """The losses on held-out text by the full softmax, with the state carried over.

        Raises:
            DivergedLM: as `Perplexities.of` does, for example after too large a last step. All
                workers raise it.
        """
        return evaluate(
            self.model,
            held_out,
            self.training.steps,
            share=self.share,
            all_reduce=self.all_reduce,
        )

    def tensors(self) -> dict[str, Tensor]:
        """The weights and the optimiser's state, which all workers share."""
        out = {f"{WEIGHTS}{name}": tensor for name, tensor in self.model.state_dict().items()}
        return out | optimizer_tensors(self.optimizer)

    def own_tensors(self) -> dict[str, Tensor]:
        """This worker's random state, LSTM states and losses."""
        own = {"random.cpu": torch.get_rng_state(), "losses": self.losses}
        if self.device.type == "cuda":
            own["random.cuda"] = torch.cuda.get_rng_state(self.device)
        for direction, layers in enumerate(self.states):
            for layer, (output, cell) in enumerate(layers):
                own[f"states.{direction}.{layer}.output"] = output
                own[f"states.{direction}.{layer}.cell"] = cell
        return own

    def counters(self) -> dict[str, float]:
        """Numbers that a resumed training needs."""
        return {"step": self.step, "unread": self.unread, "seconds": self.seconds}

    def resume(
        self, tensors: dict[str, Tensor], own: dict[str, Tensor], counters: dict[str, Any]
    ) -> None:
        """Continue from what `tensors`, `own_tensors` and `counters` returned."""
        self.model.load_state_dict(with_prefix(tensors, WEIGHTS))
        restore_optimizer(self.optimizer, tensors)
        torch.set_rng_state(own["random.cpu"])
        if "random.cuda" in own and self.device.type == "cuda":
            torch.cuda.set_rng_state(own["random.cuda"], self.device)
        self.losses = own["losses"].clone()
        directions = [
            [
                (
                    own[f"states.{direction}.{layer}.output"].to(self.device),
                    own[f"states.{direction}.{layer}.cell"].to(self.device),
                )
                for layer in range(self.model.bilm.config.layers)
            ]
            for direction in range(2)
        ]
        self.states = (directions[0], directions[1])
        self.step, self.unread = int(counters["step"]), int(counters["unread"])
        self.seconds = counters["seconds"]


# Held-out text is cut into few and long tracks, because each starts without a state.
EVALUATION_TRACKS = 16
EVALUATION_TRACK_WORDS = 1_000


@torch.inference_mode()
def evaluate(
    model: LanguageModel,
    corpus: Corpus,
    steps: int,
    *,
    share: slice = slice(None),
    all_reduce: Callable[[Tensor], Any] = lambda tensor: None,
) -> Perplexities:
    """The mean losses on a corpus by the full softmax, with the state carried over.

    Raises:
        DivergedLM: as `Perplexities.of` does.
    """
    model.eval()
    device = next(model.parameters()).device
    count = min(EVALUATION_TRACKS, len(corpus.forward) // EVALUATION_TRACK_WORDS)
    tracks = Tracks(corpus, max(count, share.step or 1), steps, share)
    states = model.bilm.first_states(tracks.rows)
    totals = torch.zeros(2, dtype=torch.float64, device=device)
    for number in range(tracks.windows):
        window = tracks.window(number, device)
        forward, backward, states = model(window.characters, window.tokens, window.targets, states)
        totals += torch.stack([forward, backward]).double() * (tracks.rows * steps)
    all_reduce(totals)
    means = totals / (tracks.windows * tracks.words_per_window)
    return Perplexities.of(means, "the held-out losses")
