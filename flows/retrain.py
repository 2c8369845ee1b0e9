"""Flow `retrain`: from a dataset to trained, scored and registered variants, and a report."""

import sys
from collections.abc import Callable
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import FlowRun, State

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
from tasks.stages import Output
from tasks.vocabulary import VocabularyParameters


def train_all(
    configs: list[VariantConfig], splits: Splits, encoded: Encoded, resources: Resources
) -> list[Output]:
    """Train the variants one after the other on one cluster."""
    try:
        return [
            steps.training(
                splits.name,
                config,
                splits.train.folder,
                splits.dev.folder,
                encoded.train.folder,
                encoded.dev.folder,
                encoded.vocabulary.folder,
                encoded.vectors.folder,
                resources,
            )
            for config in configs
        ]
    finally:
        cluster.disconnect()


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
