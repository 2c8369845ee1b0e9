"""Flow `train`: from a dataset to trained, scored and registered variants, and a report."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.command_line import parameters_from
from flows.error_reports import Examples, error_report, require_examples
from flows.files import suited_to
from flows.hooks import ENDING_RUNS
from flows.ingest import Splits, ingest_dataset
from flows.letter_case import require_one_case
from flows.outcome import Outcome, announce, publish
from flows.parameters import (
    DataParameters,
    TrainingParameters,
    Variants,
    VectorParameters,
    configure,
    reads_spelt_words,
    vectors_for,
)
from flows.refusals import result_or_exit, told_in_a_sentence
from flows.starting import model_to_start_from
from flows.vocabulary import Encoded, encode_dataset
from infra.settings import settings
from models.config import VariantConfig
from tasks import cluster, steps
from tasks.cluster import Resources
from tasks.following import following
from tasks.stages import Output, outputs_of
from tasks.training import parent_run_of, remove_checkpoints
from tasks.training_data import SplitFolders, TrainingData
from tasks.vocabulary import VocabularyParameters


@dataclass(frozen=True)
class Training:
    """A variant, and the data that it is trained on."""

    config: VariantConfig
    splits: Splits
    encoded: Encoded
    start_from: Path | None = None

    @property
    def inputs(self) -> tuple[str, VariantConfig, TrainingData]:
        """What the stage `train` takes."""
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
    """Train the variants on one cluster, side by side as far as it allows.

    A cluster that this process had joined before stays joined.
    """
    joined_before = cluster.is_connected()
    pending = [t for t in trainings if not steps.training.is_made(*t.inputs, resources)]
    if pending:
        cluster.connect()
        resources = cluster.share(resources, len(pending))
        for dataset in {training.splits.name for training in pending}:
            parent_run_of(dataset)  # one for all of them, so it is opened before they start
    runner: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=max(1, resources.trainings))
    with runner, following():
        try:
            outputs = outputs_of(
                [steps.training.submit(runner, *t.inputs, resources) for t in trainings]
            )
        finally:
            if not joined_before:
                cluster.disconnect()  # ends what still trains where the flow is interrupted
    for output in outputs:
        remove_checkpoints(output.folder)
    return outputs


def report_on(training: Training, trained: Sequence[Output]) -> Output:
    """The report on variants that were trained on the same data as one of them."""
    splits = training.splits
    return steps.reporting(
        splits.name,
        [output.folder for output in trained],
        splits.train.folder,
        splits.validation.folder if splits.validation is not None else None,
        splits.dev.folder,
        training.encoded.vocabulary.folder,
    )


def train_variants(
    data: DataParameters,
    variants: Variants,
    vectors: VectorParameters,
    vocabulary: VocabularyParameters,
    training: TrainingParameters,
    resources: Resources,
    examples: Sequence[str],
) -> Outcome:
    """Ingest, encode, train, report: what `train` and `retrain` share.

    Every step whose inputs, parameters and code are as they were is taken from the cache.
    """
    require_one_case([vectors], vocabulary)
    configs = [configure(name, suited_to(data), training.changes()) for name in variants]
    start = model_to_start_from(training.start_from)
    wanted = vectors_for(configs, vectors)
    splits = ingest_dataset(data)
    require_examples(splits, examples)
    encoded = encode_dataset(splits, wanted, vocabulary, reads_spelt_words(configs))
    trainings = [Training(config, splits, encoded, start) for config in configs]
    trained = train_all(trainings, resources)
    report = report_on(trainings[0], trained)
    errors = [error_report(splits, output, examples) for output in trained]
    return Outcome(splits, trained, report, errors)


@flow(
    name="train",
    description=__doc__,
    timeout_seconds=settings().time_limit_hours * 3600,
    **ENDING_RUNS,
)
@told_in_a_sentence
def train(
    data: DataParameters = DataParameters(),
    variants: Variants = ["baseline", "char"],
    vectors: VectorParameters = VectorParameters(),
    vocabulary: VocabularyParameters = VocabularyParameters(),
    training: TrainingParameters = TrainingParameters(),
    resources: Resources = Resources(),
    examples: Examples = [],
) -> dict[str, Any]:
    """Train the variants on a dataset; returns their scores and where the report is.

    The champion stays what it is: `retrain` is the flow that promotes.
    """
    outcome = train_variants(data, variants, vectors, vocabulary, training, resources, examples)
    publish(outcome)
    return outcome.summary()


if __name__ == "__main__":
    parameters = parameters_from(sys.argv[1:], train)
    announce(result_or_exit(train(**parameters, return_state=True)))
