"""The training loop of a Ray Train worker: the epochs of one variant, with checkpoints."""

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray.train
import torch
from ray.train.collective import broadcast_from_rank_zero

from infra.artifacts.node_cache import fetched
from models.batching import Examples, Types
from models.configs.variant import VariantConfig
from models.early_stopping import is_out_of_time, stop_reason
from models.span_decoding import Predictions
from models.trainer import Diverged, Epoch, Reading, Trainer
from tasks.evaluation.epoch_scores import EvaluatedSplit, epoch_scores
from tasks.evaluation.evaluate import load_split
from tasks.evaluation.metrics import THRESHOLD
from tasks.evaluation.operating_points import operating_points
from tasks.text.encoded import load_types
from tasks.tracking.metric_logger import EpochLogger
from tasks.training.checkpoints import TrainingRecord, resume_from, save_checkpoint
from tasks.training.epoch_log import (
    EpochResult,
    Report,
    history_entry,
    stopping_f1,
    training_progress,
)
from tasks.training.initialization import new_model
from tasks.training.inputs import TrainingData
from tasks.training.ray_workers import (
    PROGRESS_SECONDS,
    SLOW_PRECISION,
    CheckpointSchedule,
    all_reduce,
    distributed,
    is_slow,
    kept_threads,
    slow_size,
)

# Metric by which Ray ranks checkpoints: validation F1, of the part that stops trainings.
PREFERENCE = "preference"

# Validation F1 that is reported with a mid-epoch checkpoint.
NOT_EVALUATED = -1.0


@dataclass(frozen=True)
class Job:
    """All that a worker needs: the variant, the data, and the run to log to."""

    variant: VariantConfig
    data: TrainingData
    tracking_uri: str
    run_id: str

    def types(self) -> Types:
        """The types of the splits' tokens, for the variant's model."""
        composes_oov = self.variant.model.unknown_words == "subword"
        return load_types(self.data.vocabulary, composes_oov)


def make_trainer(job: Job, threads: int) -> Trainer:
    """This worker's trainer for the job, before its first step."""
    training = job.variant.training
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    torch.set_num_threads(threads)
    trainer = Trainer(
        new_model(job.variant, job.data)[0],
        training,
        wrap=distributed,
        all_reduce=all_reduce,
        rank=rank,
        world_size=size,
    )
    torch.manual_seed(training.seed + rank)  # so that dropout differs between workers
    return trainer


def train_worker(config: dict[str, Any]) -> str | None:
    """Train `config["job"]` as one of the workers, with the resources of `config["allotment"]`.

    The first worker reports to the driver through `config["send"]`.

    Returns an error message if training diverged. It is not raised, because Ray would replace the
    workers, which would diverge again.
    """
    job: Job = fetched(config["job"])
    if ray.train.get_context().get_world_rank() == 0:
        config["send"](f"{job.variant.name}: the workers have started, and load model and data.")
    trainer = make_trainer(job, config["allotment"].cpus_per_worker)
    if trainer.rank == 0 and is_slow(job.variant.training.precision, trainer.device):
        config["send"](f"{job.variant.name}: {SLOW_PRECISION}")
    if trainer.rank == 0 and (slow := slow_size(job.variant.model.hidden_size, trainer.device)):
        config["send"](f"{job.variant.name}: {slow}")
    try:
        _Loop(job, trainer, config["send"], config["checkpoint_minutes"]).run()
    except Diverged as error:
        if trainer.rank == 0:
            config["send"](f"{job.variant.name} ended: it diverged.")
        training = job.variant.training
        precision = "" if training.precision == "float32" else ", or set precision to float32"
        return (
            f"{job.variant.name} diverged: {error}. Set learning_rate below "
            f"{training.learning_rate:g}{precision}."
        )
    return None


def _resume(trainer: Trainer) -> TrainingRecord:
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return TrainingRecord()
    with checkpoint.as_directory() as folder:
        return resume_from(Path(folder), trainer)


class _Loop:
    """One worker's training, from the latest checkpoint to its end.

    The first worker also evaluates, logs and reports, and decides for all workers when to stop.
    """

    def __init__(
        self,
        job: Job,
        trainer: Trainer,
        send: Callable[[Report], None],
        checkpoint_minutes: float,
    ) -> None:
        self.start = time.perf_counter()
        self.trainer, self.send = trainer, send
        self.variant, self.training = job.variant, job.variant.training
        threads = torch.get_num_threads()
        self.record = _resume(trainer)
        self.train = job.data.train.examples()
        self.types = job.types()
        self.checkpoint_schedule = CheckpointSchedule(checkpoint_minutes)
        self.is_first = trainer.rank == 0
        evaluated = {name: split for name, split in job.data.splits.items() if name != "train"}
        self.examples: dict[str, Examples] = {
            name: split.examples() for name, split in evaluated.items()
        }
        if self.is_first and trainer.step > 0:
            epoch = trainer.epoch + 1
            send(
                f"{self.variant.name}: continuing from epoch {epoch}, step {trainer.step:,}"
                f"{kept_threads(threads)}."
            )
        if self.is_first:
            self.evaluated: dict[str, EvaluatedSplit] = {
                name: EvaluatedSplit(load_split(split.ingested), self.examples[name])
                for name, split in evaluated.items()
            }
            unlogged = self.record.unlogged_nlls, self.record.unsent
            self.logger = EpochLogger(job.tracking_uri, job.run_id, *unlogged)
            self.last_progress = time.monotonic()

    def run(self) -> None:
        """Train epoch by epoch; after each epoch evaluate and write a checkpoint."""
        while self.record.ended is None:
            epoch = self.trainer.train_epoch(self.train, self.types, self._after_reading)
            answered = {
                name: self.trainer.predict(examples, self.types)
                for name, examples in self.examples.items()
            }
            ended = None
            if self.is_first:
                scores = epoch_scores(self.evaluated, answered, self.train, self.training)
                self._log_epoch(epoch, scores)
                if THRESHOLD in scores:
                    validation = self.evaluated["validation"].split
                    points = operating_points(validation, answered["validation"][0])
                    self.record.operating_points = [list(point) for point in points]
                f1s = [stopping_f1(entry, math.nan) for entry in self.record.history]
                ended = stop_reason(self.training, f1s, self.trainer.seconds)
            self.record.ended = broadcast_from_rank_zero(ended)
            self._save(answered["dev"][0] if self.is_first else None)
        if self.is_first:
            self.send(f"{self.variant.name} ended: {self.record.ended}.")

    def _after_reading(self, reading: Reading) -> bool:
        """Log, report, and write a checkpoint if one is due. Returns whether to continue."""
        if self.is_first:
            self._log_steps(reading)
        if is_out_of_time(self.training, reading.seconds):
            return False
        epoch_ends = reading.epoch_step == reading.steps_in_epoch
        if self.checkpoint_schedule.is_due(reading.seconds) and not epoch_ends:
            self._save(None)
        return True

    def _log_steps(self, reading: Reading) -> None:
        for step, nll in enumerate(reading.nlls, reading.step - len(reading.nlls)):
            self.logger.step(step, nll)
        if time.monotonic() - self.last_progress >= PROGRESS_SECONDS:
            self.last_progress = time.monotonic()
            self.send(training_progress(self.variant, self.trainer.epoch + 1, reading))

    def _log_epoch(self, epoch: Epoch, scores: dict[str, float]) -> None:
        entry = history_entry(self.trainer, epoch, scores, self.record.history)
        self.record.history.append(entry)
        self.send(EpochResult(self.variant.name, entry))
        self.logger.epoch(
            self.trainer.step, {name: value for name, value in entry.items() if name != "step"}
        )

    def _save(self, predictions: Predictions | None) -> None:
        """Write a checkpoint, together with the other workers."""
        scores = {} if predictions is None else self.record.history[-1]
        f1 = stopping_f1(scores, NOT_EVALUATED)
        self.record.loop_seconds = time.perf_counter() - self.start
        with tempfile.TemporaryDirectory() as folder:
            save_checkpoint(Path(folder), self.trainer, self.record, predictions)
            ray.train.report(
                # Ties go to the earlier epoch.
                {PREFERENCE: f1 - 1e-9 * len(self.record.history)},
                checkpoint=ray.train.Checkpoint.from_directory(folder),
            )
