"""Trains variants on one cluster, and reports on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.common.encoding import Encoded
from flows.common.splits import Splits
from infra import ray_cluster
from infra.artifacts.stage import Output, outputs_of
from infra.ray_cluster import Resources
from models.configs.variant import VariantConfig
from tasks import stages
from tasks.training.inputs import SplitFolders, TrainingData
from tasks.training.log_forwarding import forwarding_logs
from tasks.training.train_variant import parent_run_of, remove_checkpoints


@dataclass(frozen=True)
class Training:
    """A variant and the data to train it on."""

    config: VariantConfig
    splits: Splits
    encoded: Encoded
    start_from: Path | None = None

    @property
    def inputs(self) -> tuple[str, VariantConfig, TrainingData]:
        """The arguments of the stage `train`, apart from the resources."""
        splits, encoded = self.splits, self.encoded
        validation = None
        if splits.validation is not None and encoded.validation is not None:
            validation = SplitFolders(splits.validation.folder, encoded.validation.folder)
        data = TrainingData(
            train=SplitFolders(splits.train.folder, encoded.train.folder),
            dev=SplitFolders(splits.dev.folder, encoded.dev.folder),
            vocabulary=encoded.vocabulary.folder,
            vectors=encoded.vectors.folder,
            validation=validation,
            start_from=self.start_from,
        )
        return splits.name, self.config, data


def train_all(trainings: list[Training], resources: Resources) -> list[Output]:
    """Train the variants on one cluster, in parallel as far as its resources allow.

    If this process was connected to a cluster before, it stays connected.
    """
    joined_before = ray_cluster.is_connected()
    pending = [t for t in trainings if not stages.training.is_built(*t.inputs, resources)]
    if pending:
        ray_cluster.connect()
        resources = ray_cluster.with_parallel_trainings(resources, len(pending))
        for dataset in {training.splits.name for training in pending}:
            parent_run_of(dataset)  # shared by all, so create it before they start
    runner: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=max(1, resources.trainings))
    with runner, forwarding_logs():
        try:
            outputs = outputs_of(
                [stages.training.submit(runner, *t.inputs, resources) for t in trainings]
            )
        finally:
            if not joined_before:
                ray_cluster.disconnect()  # also ends trainings if the flow is interrupted
    for output in outputs:
        remove_checkpoints(output.folder)
    return outputs


def report_on(training: Training, trained: Sequence[Output]) -> Output:
    """The report on variants that were all trained on the data of `training`."""
    return stages.reporting(
        training.splits.name,
        [output.folder for output in trained],
        training.splits.folders,
        training.encoded.vocabulary.folder,
    )
