"""Flow `retrain`: from a dataset to trained, scored and registered variants, and a report."""

import sys
from collections.abc import Callable
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import FlowRun, State
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.command_line import parameters_from
from flows.ingest import Splits, ingest_dataset
from flows.outcome import Outcome, announce, publish
from flows.parameters import (
    DataParameters,
    TrainingParameters,
    Variants,
    VectorParameters,
    configure,
)
from flows.refusals import result_or_exit, told_in_a_sentence
from flows.vocabulary import Encoded, encode_dataset
from infra.settings import settings
from models.config import VariantConfig
from tasks import cluster, steps, tracking
from tasks.catalogue import DATASETS
from tasks.cluster import Resources
from tasks.stages import Output, outputs_of
from tasks.training import parent_run_of
from tasks.vocabulary import VocabularyParameters


def train_all(
    configs: list[VariantConfig], splits: Splits, encoded: Encoded, resources: Resources
) -> list[Output]:
    """Train the variants on one cluster, side by side as far as it allows."""
    inputs = (
        splits.train.folder,
        splits.dev.folder,
        encoded.train.folder,
        encoded.dev.folder,
        encoded.vocabulary.folder,
        encoded.vectors.folder,
    )
    made = [steps.training.is_made(splits.name, c, *inputs, resources) for c in configs]
    if not all(made):
        cluster.connect()
        resources = cluster.share(resources, made.count(False))
        parent_run_of(splits.name)  # one for all of them, so it is opened before they start
    runner: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=max(1, resources.trainings))
    with runner:
        try:
            pending = [
                steps.training.submit(runner, splits.name, config, *inputs, resources)
                for config in configs
            ]
            return outputs_of(pending)
        finally:
            cluster.disconnect()  # ends what still trains where the flow is interrupted


def end_runs_as(status: tracking.Status) -> Callable[..., None]:
    """A hook that ends the MLflow runs which a flow run has left open."""

    def hook(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
        tracking.finish_flow_run(settings().tracking_uri, str(flow_run.id), status)

    return hook


@flow(
    name="retrain",
    description=__doc__,
    on_failure=[end_runs_as("FAILED")],
    on_crashed=[end_runs_as("KILLED")],
    on_cancellation=[end_runs_as("KILLED")],
)
@told_in_a_sentence
def retrain(
    data: DataParameters = DataParameters(),
    variants: Variants = ["baseline", "char"],
    vectors: VectorParameters = VectorParameters(),
    vocabulary: VocabularyParameters = VocabularyParameters(),
    training: TrainingParameters = TrainingParameters(),
    resources: Resources = Resources(),
) -> dict[str, Any]:
    """Train the variants on a dataset; returns their scores and where the report is.

    Every step whose inputs, parameters and code are as they were is taken from the cache.
    """
    suited = DATASETS[data.dataset].training if data.dataset in DATASETS else {}
    configs = [configure(name, suited, training.changes()) for name in variants]
    splits = ingest_dataset(data)
    encoded = encode_dataset(splits, vectors, vocabulary)
    trained = train_all(configs, splits, encoded, resources)
    report = steps.reporting(
        splits.name,
        [output.folder for output in trained],
        splits.train.folder,
        splits.dev.folder,
        encoded.vocabulary.folder,
    )
    outcome = Outcome(splits, trained, report)
    publish(outcome)
    return outcome.summary()


if __name__ == "__main__":
    parameters = parameters_from(sys.argv[1:], retrain)
    announce(result_or_exit(retrain(**parameters, return_state=True)))
