"""Trains a variant on Ray's workers, from the start or from the last checkpoint."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.cluster.allotment import Allotment
from infra.storage.store import Store
from tasks.training.ray_workers import local_checkpoint, resumable, run_workers
from tasks.training.worker import PREFERENCE, Job, train_worker


@dataclass(frozen=True)
class FitResult:
    """The result of a training: checkpoint folders, and its duration in seconds."""

    last: Path
    best: Path  # by validation F1; without a validation split, the last checkpoint
    seconds: float


def fit(job: Job, allotment: Allotment, name: str, storage: Store) -> FitResult:
    """Run the workers until training ends.

    An interrupted training of the same name, of this or another process, resumes from its last
    checkpoint.

    Raises:
        UserError: the training diverged, or Ray Train's controller died, and the workers with it.
        ray.train.TrainingFailedError: workers failed, and so did their replacements.
    """
    start = time.perf_counter()
    validated = job.data.validation is not None
    ranking: dict[str, Any] = {"checkpoint_score_attribute": PREFERENCE} if validated else {}
    result = run_workers(
        job.variant.name,
        train_worker,
        job,
        allotment,
        resumable(name, storage, **ranking),
    )
    last = best = local_checkpoint(result.checkpoint, name, storage)
    if validated:
        checkpoint, _ = max(result.best_checkpoints, key=lambda item: item[1][PREFERENCE])
        if checkpoint.path != result.checkpoint.path:
            best = local_checkpoint(checkpoint, name, storage)
    return FitResult(last, best, time.perf_counter() - start)
