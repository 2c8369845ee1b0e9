"""What each Ray Train worker runs: the epochs of one variant, a checkpoint after each."""

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import ray.train
import ray.train.torch
import torch
from torch import nn

from models.batching import Examples, Types
from models.bidaf import BiDAF
from models.config import VariantConfig
from models.decoding import Predictions
from models.training import Epoch, Step, Trainer
from tasks.checkpoints import resume_from, save_checkpoint
from tasks.encoding import load_encoded, load_types, load_word_vectors
from tasks.evaluation import evaluate, load_split
from tasks.tracking import EpochLogger

PROGRESS_SECONDS = 10.0


@dataclass(frozen=True)
class Job:
    """All that a worker needs: addresses of files, the variant, and the run to log to."""

    variant: VariantConfig
    encoded_train: str
    encoded_dev: str
    dev: str
    vocabulary: str
    vectors: str
    tracking_uri: str
    run_id: str


def build_model(job: Job) -> BiDAF:
    """The variant's model over the job's vocabulary, its first weights drawn from the seed."""
    vectors = load_word_vectors(
        Path(job.vocabulary),
        Path(job.vectors),
        job.variant.model.unknown_words,
        job.variant.training.seed,
    )
    characters = pq.read_metadata(Path(job.vocabulary) / "characters.parquet").num_rows
    torch.manual_seed(job.variant.training.seed)
    return BiDAF(job.variant.model, torch.from_numpy(vectors), characters)


def train_worker(config: dict[str, Any]) -> None:
    """What every Ray Train worker runs: epochs, a checkpoint after each, metrics from rank 0."""
    job = Job(**{**config["job"], "variant": VariantConfig.from_dict(config["job"]["variant"])})
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    torch.set_num_threads(config["allotment"]["cpus_per_worker"])
    trainer = Trainer(
        build_model(job), job.variant.training, wrap=_prepare, rank=rank, world_size=size
    )
    torch.manual_seed(job.variant.training.seed + rank)  # each worker drops other elements
    history = _resume(trainer)
    began = time.perf_counter()
    train, dev = load_encoded(Path(job.encoded_train)), load_encoded(Path(job.encoded_dev))
    types = load_types(Path(job.vocabulary))
    evaluate = _evaluator(trainer, dev, types, job, bool(train.impossible.any()))
    logger = EpochLogger(job.tracking_uri, job.run_id) if rank == 0 else None
    while trainer.epoch < job.variant.training.epochs:
        epoch = trainer.train_epoch(train, types, _on_step(job.variant, trainer, logger))
        if logger is None:
            ray.train.report({})
            continue
        predictions, scores = evaluate()
        history.append(_entry(trainer, epoch, scores, history))
        history[-1]["loop_seconds"] = time.perf_counter() - began
        _say(f"{job.variant.name} epoch {trainer.epoch}: {_summary(history[-1])}")
        logger.epoch(trainer.step, {k: v for k, v in history[-1].items() if k != "step"})
        with tempfile.TemporaryDirectory() as folder:
            save_checkpoint(Path(folder), trainer, history, predictions)
            checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"dev/f1": scores["dev/f1"]}, checkpoint=checkpoint)


def _prepare(model: nn.Module) -> nn.Module:
    # The buffers are frozen word vectors, equal everywhere: sending them each step is waste.
    prepared: nn.Module = ray.train.torch.prepare_model(
        model, parallel_strategy_kwargs={"broadcast_buffers": False}
    )
    return prepared


def _resume(trainer: Trainer) -> list[dict[str, Any]]:
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return []
    with checkpoint.as_directory() as folder:
        return resume_from(Path(folder), trainer)


def _evaluator(
    trainer: Trainer, dev: Examples, types: Types, job: Job, allow_no_answer: bool
) -> Callable[[], tuple[Predictions, dict[str, float]]]:
    """A function that answers every dev question and scores the answers by the official rules."""
    split = load_split(Path(job.dev))

    def run() -> tuple[Predictions, dict[str, float]]:
        predictions, nll = trainer.predict(dev, types, allow_no_answer)
        scores = evaluate(split, predictions).scores
        measured = {"em": scores.em, "f1": scores.f1, "avna": scores.avna, "nll": nll}
        return predictions, {f"dev/{name}": value for name, value in measured.items()}

    return run


def _on_step(
    variant: VariantConfig, trainer: Trainer, logger: EpochLogger | None
) -> Callable[[Step], None]:
    """Log each step's loss, and say every few seconds how far the epoch is."""
    last = time.monotonic()

    def on_step(step: Step) -> None:
        nonlocal last
        if logger is None:
            return
        logger.step(step.number, step.nll)
        if time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            _say(_progress(variant, trainer.epoch + 1, step))

    return on_step


def _progress(variant: VariantConfig, epoch: int, step: Step) -> str:
    training = variant.training
    steps_left = step.steps_in_epoch * (training.epochs - epoch + 1) - step.of_epoch
    seconds = steps_left * training.batch_size / step.examples_per_second
    return (
        f"{variant.name} epoch {epoch}/{training.epochs} step {step.of_epoch}/{step.steps_in_epoch}"
        f"  nll {step.nll:.2f}  {step.examples_per_second:.0f} examples/s"
        f"  {int(seconds) // 60}:{int(seconds) % 60:02d} left"
    )


def _say(line: str) -> None:
    print(line, flush=True)


def _entry(
    trainer: Trainer, epoch: Epoch, scores: dict[str, float], history: list[dict[str, Any]]
) -> dict[str, Any]:
    """One epoch of the history, under MLflow's metric names."""
    return {
        "epoch": trainer.epoch,
        "step": trainer.step,
        "train/nll": epoch.nll,
        **scores,
        "examples_per_second": epoch.examples_per_second,
        "padding_ratio": epoch.padding_ratio,
        "peak_memory_bytes": _peak_memory(),
        "seconds": epoch.seconds + (history[-1]["seconds"] if history else 0.0),
    }


def _summary(entry: dict[str, Any]) -> str:
    return (
        f"train nll {entry['train/nll']:.3f}, dev nll {entry['dev/nll']:.3f}, "
        f"EM {entry['dev/em']:.2f}, F1 {entry['dev/f1']:.2f}, "
        f"{entry['examples_per_second']:.0f} examples/s"
    )


def _peak_memory() -> int:
    """Bytes: of the GPU where there is one, else of this process."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage counts bytes there, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
