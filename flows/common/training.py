"""Trains variants on one cluster, from scratch or from an earlier model, and reports on them."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from prefect import get_run_logger, task
from prefect.runtime import flow_run
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.common.data import Splits, suited_changes
from flows.common.vectors import Encoded
from infra.artifacts.stage import Output
from infra.cluster.allotment import Resources, with_parallel_trainings
from infra.errors import UserError
from infra.files import user_path
from infra.heartbeat import step
from models.configs.presets import PRESETS
from models.configs.variant import TrainingConfig, VariantConfig
from tasks import stages
from tasks.datasets.catalog import FEW_QUESTIONS
from tasks.inference.members import member_folders
from tasks.tracking import registry, runs
from tasks.tracking.registry import find_model_files
from tasks.training.inputs import SplitFolders, TrainingData
from tasks.training.log_forwarding import forwarding_logs
from tasks.training.train_variant import remove_checkpoints

LEAST_FOR_ADADELTA = 0.01  # a lower learning rate is one for Adam


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
        encoded, is_contextual = self.encoded, self.config.model.contextual is not None
        folders = {
            name: SplitFolders(
                folder,
                encoded.splits[name].folder,
                encoded.layers[name].folder if is_contextual else None,
            )
            for name, folder in self.splits.folders.items()
        }
        data = TrainingData(
            **folders,
            vocabulary=encoded.vocabulary.folder,
            vectors=encoded.vectors.folder,
            start_from=self.start_from,
            bilm=encoded.bilm.folder if is_contextual and encoded.bilm else None,
        )
        return self.splits.name, self.config, data


def suited_to(
    configs: Sequence[VariantConfig], splits: Splits, chosen: Mapping[str, Any]
) -> list[VariantConfig]:
    """The variants, changed to suit own data with few questions; the log says so.

    `chosen` are the fields that the user has set. Presets of the user's own stay as they are.
    """
    questions = splits.train.facts["questions"]
    changes = suited_changes(splits, chosen)
    changed = [c.with_changes(**changes) if c.name in PRESETS else c for c in configs]
    for config in changed:
        if problem := unsuited(config.training, questions):
            get_run_logger().warning(f"{config.name}: {problem}")
    if changed != list(configs):
        note = changes_in_words(splits, changes)
        get_run_logger().info(f"{note} Options and the form change that.")
    return changed


def changes_in_words(splits: Splits, changes: Mapping[str, Any]) -> str:
    """The `suited_changes` as a sentence."""
    values = ", ".join(f"{name} {value}" for name, value in changes.items())
    return (
        f"{splits.name} has {splits.train.facts['questions']:,} training questions, so the presets "
        f"are trained with {values}."
    )


def unsuited(training: TrainingConfig, questions: int) -> str:
    """Why a training on so many questions would learn little, as a sentence; "" if it would not."""
    used = f"{training.optimizer} with a learning rate of {training.learning_rate:g}"
    if training.optimizer == "adadelta" and training.learning_rate < LEAST_FOR_ADADELTA:
        return (
            f"{used} learns next to nothing. Set --training.learning-rate to about 0.5, or "
            "--training.optimizer to adam."
        )
    if training.optimizer == "adadelta" and questions < FEW_QUESTIONS:
        return (
            f"{used} is meant for 50,000 questions and more, and these are {questions:,}. Leave "
            "--training.optimizer and --training.learning-rate empty for settings that suit them."
        )
    return ""


def model_to_start_from(source: str | None) -> Path | None:
    """For a warm start: the stage folder with a copy of the model; None if `source` is None.

    Raises:
        UserError: there is no such model.
    """
    if source is None:
        return None
    folder, _, _ = find_model(source)
    if member_folders(folder / "model"):
        raise UserError(
            f"{source} is an ensemble, which can't be trained on. Set training.start_from to one "
            "of its members."
        )
    return folder


def find_model(spec: str) -> tuple[Path, str, str]:
    """The stage folder with a copy of a model, and its name and version. `spec` is a model
    directory, which has no version, or names a registered version (see `find_version`).

    Raises:
        UserError: there is no such model.
    """
    if user_path(spec).is_dir():
        return stages.fetch_model_stage(find_model_files(spec)).folder, spec, ""
    version = registry.find_version(spec)
    folder = stages.fetch_model_stage(first_found(spec, version.model_id)).folder
    return folder, version.name, version.version


@task(
    name="find-start-model",
    persist_result=True,
    result_serializer="json",
    cache_key_fn=lambda _, parameters: f"{flow_run.id}-{parameters['source']}",
)
def first_found(source: str, model_id: str) -> str:
    """The id of the model that the first attempt of this flow run found for `source`. An alias may
    have moved since then, even to a model that this flow run trained and promoted."""
    return model_id


def train_all(trainings: list[Training], resources: Resources) -> list[Output]:
    """Train the variants on one cluster, in parallel as far as its resources allow.

    If this process was connected to a cluster before, it stays connected. If trainings fail, the
    error of the first one is raised when all others have ended.
    """
    outputs = []
    for _, outcome in sorted(train_each(trainings, resources), key=itemgetter(0)):
        if isinstance(outcome, Exception):
            raise outcome
        outputs.append(outcome)
    return outputs


def train_each(
    trainings: list[Training], resources: Resources
) -> Generator[tuple[int, Output | Exception], None, None]:
    """Like `train_all`, but yield the position of each training as it ends, with its output or with
    the error that it failed with."""
    from infra.cluster import ray_cluster  # takes a while to load

    joined_before = ray_cluster.is_connected()
    pending = [t for t in trainings if not stages.train_stage.is_built(*t.inputs, resources)]
    if pending:
        if not joined_before:
            get_run_logger().info("Starting Ray; this takes half a minute on a busy machine.")
        with step("starting Ray"):
            seconds = ray_cluster.connect()
        if not joined_before:
            get_run_logger().info(f"Ray is ready after {seconds:.0f} s.")
        resources = with_parallel_trainings(resources, len(pending))
        for dataset in {training.splits.name for training in pending}:
            runs.parent_run_of(dataset)  # shared by all, so create it before they start
    runner: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=max(1, resources.trainings))
    calls = [(*t.inputs, resources) for t in trainings]
    with runner, forwarding_logs():
        try:
            for number, outcome in stages.train_stage.run_each(runner, calls):
                if isinstance(outcome, Output):
                    remove_checkpoints(outcome.folder)
                yield number, outcome
        finally:
            if not joined_before:
                ray_cluster.disconnect()  # also ends trainings if the flow is interrupted
