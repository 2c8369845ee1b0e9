"""The training loop of a Ray Train worker for a language model, with checkpoints."""

import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import ray.train
import torch
from safetensors.torch import load_file, save_file

from infra.artifacts.node_cache import fetched
from infra.progress import Progress
from models.language_model.config import BiLMConfig, LMTraining
from models.language_model.objective import LanguageModel
from models.language_model.trainer import WEIGHTS, DivergedLM, LMTrainer
from models.optim import with_prefix
from tasks.embeddings.contextual.bilm_file import load_bilm
from tasks.embeddings.training.encode_corpus import HELD_OUT, TRAIN, EncodedCorpus
from tasks.tracking.metric_logger import EpochLogger
from tasks.training.ray_workers import (
    PROGRESS_SECONDS,
    SLOW_PRECISION,
    CheckpointSchedule,
    all_reduce,
    distributed,
    is_slow,
    kept_threads,
)

TITLE = "elmo"
TENSORS, NUMBERS = "state.safetensors", "state.json"
History = list[dict[str, float]]


@dataclass(frozen=True)
class LanguageModelJob:
    """All that a worker needs: the model, the corpus, and the run to log to."""

    config: BiLMConfig
    training: LMTraining
    corpus: EncodedCorpus
    words: Sequence[str]  # that the model predicts
    start: Path | None  # the file of the model that the training continues
    tracking_uri: str
    run_id: str


@dataclass
class LanguageModelRecord:
    """The results of a training so far."""

    history: History = field(default_factory=list)  # under MLflow's metric names
    unsent: list[list[Any]] = field(default_factory=list)  # metrics not sent to MLflow yet


def new_language_model(job: LanguageModelJob) -> LanguageModel:
    """The model before the first step: random weights, or those of the start model."""
    torch.manual_seed(job.training.seed)
    model = LanguageModel(job.config, len(job.words) + 2, job.training.dropout)
    if job.start is not None:
        model.load_state_dict(load_bilm(job.start).model.state_dict())
    return model


def train_language_model_worker(config: dict[str, Any]) -> str | None:
    """Train `config["job"]` as one of the workers. Returns an error message if training diverged.

    The corpus is shared among the workers by tracks.
    """
    job: LanguageModelJob = fetched(config["job"])
    torch.set_num_threads(config["allotment"].cpus_per_worker)
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    trainer = LMTrainer(
        new_language_model(job),
        job.corpus.load(TRAIN, job.words),
        job.training,
        wrap=distributed,
        all_reduce=all_reduce,
        rank=rank,
        world_size=size,
    )
    torch.manual_seed(job.training.seed + rank)  # so that dropout differs between workers
    if rank == 0 and is_slow(job.training.precision, trainer.device):
        config["send"](f"{TITLE}: {SLOW_PRECISION}")
    try:
        _Loop(job, trainer, config["send"], config["checkpoint_minutes"]).run()
    except DivergedLM as error:
        return f"The language model diverged: {error}. Set learning_rate below " + (
            f"{job.training.learning_rate:g}."
        )
    return None


class _Loop:
    """One worker's training, from the latest checkpoint to its end; the first worker reports."""

    def __init__(
        self,
        job: LanguageModelJob,
        trainer: LMTrainer,
        send: Callable[[object], None],
        checkpoint_minutes: float,
    ) -> None:
        self.trainer, self.send = trainer, send
        self.held_out = job.corpus.load(HELD_OUT, job.words)
        threads = torch.get_num_threads()
        self.record = _resume(trainer)
        self.logger = EpochLogger(job.tracking_uri, job.run_id, unsent=self.record.unsent)
        self.began, self.words_before = time.monotonic(), trainer.words
        self.last_progress = self.began
        self.checkpoint_schedule = CheckpointSchedule(checkpoint_minutes)
        self.continues = job.start is not None
        if trainer.rank == 0 and trainer.step > 0:
            send(
                f"{TITLE}: continuing from {trainer.words:,} words, step {trainer.step:,}"
                f"{kept_threads(threads)}."
            )

    def run(self) -> None:
        """Train to the end; evaluate at regular intervals, and write a checkpoint after each
        evaluation and whenever one is due."""
        trainer = self.trainer
        if trainer.step == 0 and self.continues and not self.record.history:
            self._evaluate({})  # what the start model knows of this corpus
        while trainer.step < trainer.total_steps:
            trainer.train_step()
            self._report_progress()
            if trainer.step % trainer.interval == 0 or trainer.step == trainer.total_steps:
                self._evaluate(trainer.read().metrics("train"))
                self._save()
            elif self.checkpoint_schedule.is_due(trainer.clock()):
                self._save()

    def _evaluate(self, train: dict[str, float]) -> None:
        held_out = self.trainer.evaluate(self.held_out).metrics("held_out")
        if self.trainer.rank > 0:
            return
        entry = {
            "step": self.trainer.step,
            "words": self.trainer.words,
            **train,
            **held_out,
            "seconds": self.trainer.seconds,
        }
        if train:
            entry["words_per_second"] = self.trainer.words / self.trainer.seconds
        self.record.history.append(entry)
        metrics = {name: value for name, value in entry.items() if name != "step"}
        self.logger.epoch(self.trainer.step, metrics)
        self.send(_line(entry))

    def _report_progress(self) -> None:
        now, trainer = time.monotonic(), self.trainer
        if trainer.rank > 0 or now - self.last_progress < PROGRESS_SECONDS:
            return
        self.last_progress = now
        per_word = trainer.losses.mean() / (
            trainer.unread * trainer.tracks.rows * trainer.training.steps
        )
        self.send(
            Progress(
                TITLE,
                done=trainer.words,
                total=trainer.total_steps * trainer.tracks.words_per_window,
                unit="words",
                rate=(trainer.words - self.words_before) / (now - self.began),
                details=f"perplexity {math.exp(min(float(per_word), 700)):,.0f}",
            )
        )

    def _save(self) -> None:
        """Write a checkpoint, together with the other workers."""
        trainer = self.trainer
        with tempfile.TemporaryDirectory() as folder:
            save_checkpoint(Path(folder), trainer, self.record)
            checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"step": trainer.step}, checkpoint=checkpoint)


def save_checkpoint(folder: Path, trainer: LMTrainer, record: LanguageModelRecord) -> None:
    """Write this worker's part of a checkpoint."""
    save_file(_on_cpu(trainer.own_tensors()), folder / _own_file(trainer.rank))
    if trainer.rank > 0:
        return
    save_file(_on_cpu(trainer.tensors()), folder / TENSORS)
    numbers = {
        "counters": trainer.counters(),
        "record": asdict(record),
        "threads": torch.get_num_threads(),
    }
    (folder / NUMBERS).write_text(json.dumps(numbers), encoding="utf-8")


def _on_cpu(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.contiguous().cpu() for name, tensor in tensors.items()}


def _own_file(rank: int) -> str:
    return f"worker-{rank}.safetensors"


def resume_from(folder: Path, trainer: LMTrainer) -> LanguageModelRecord:
    """Restore this worker's trainer from a checkpoint. Returns the record up to it.

    Also restores the number of threads, because it affects the rounding of sums.
    """
    numbers = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
    torch.set_num_threads(numbers["threads"])
    own = load_file(folder / _own_file(trainer.rank))
    trainer.resume(load_file(folder / TENSORS), own, numbers["counters"])
    return LanguageModelRecord(**numbers["record"])


def _resume(trainer: LMTrainer) -> LanguageModelRecord:
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return LanguageModelRecord()
    with checkpoint.as_directory() as folder:
        return resume_from(Path(folder), trainer)


def load_result(checkpoint: Path) -> tuple[dict[str, torch.Tensor], LanguageModelRecord]:
    """The weights in a checkpoint, and the record of its training."""
    numbers = json.loads((checkpoint / NUMBERS).read_text(encoding="utf-8"))
    weights = with_prefix(load_file(checkpoint / TENSORS), WEIGHTS)
    return weights, LanguageModelRecord(**numbers["record"])


def _line(entry: dict[str, float]) -> str:
    """The results of an evaluation as one line."""
    train, held_out = (
        ", ".join(
            f"{direction} {entry[f'{part}/perplexity_{direction}']:,.1f}"
            for direction in ("forward", "backward", "mean")
        )
        if f"{part}/perplexity_mean" in entry
        else "not trained yet"
        for part in ("train", "held_out")
    )
    return f"{TITLE} {entry['words']:,} words: held-out perplexity {held_out} (train: {train})"
