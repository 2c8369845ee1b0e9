"""Flow `train`: train, evaluate and register variants on a dataset, and write a report."""

from collections.abc import Sequence
from typing import Any

from prefect import flow

from flows.common.casing import require_same_casing
from flows.common.cli import run_from_command_line
from flows.common.data_files import recommended_training
from flows.common.encoding import encode_dataset
from flows.common.hooks import CLEANUP_HOOKS
from flows.common.parameters import (
    DataParameters,
    TrainingParameters,
    Variants,
    VectorParameters,
    composes_oov_words,
    configure,
    vectors_for,
)
from flows.common.results import (
    Examples,
    TrainedVariants,
    announce,
    error_report,
    publish,
    require_examples,
)
from flows.common.splits import ingest_dataset
from flows.common.training import Training, report_on, train_all
from flows.common.user_errors import report_user_errors
from flows.common.warm_start import model_to_start_from
from infra.ray_cluster import Resources
from infra.settings import settings
from tasks.text.build_vocabulary import VocabularyParameters


def train_variants(
    data: DataParameters,
    variants: Variants,
    vectors: VectorParameters,
    vocabulary: VocabularyParameters,
    training: TrainingParameters,
    resources: Resources,
    examples: Sequence[str],
) -> TrainedVariants:
    """Ingest, encode, train and report: the steps that `train` and `retrain` share.

    A step whose inputs, parameters and code are unchanged comes from the cache.
    """
    require_same_casing([vectors], vocabulary)
    configs = [configure(name, recommended_training(data), training.changes()) for name in variants]
    start = model_to_start_from(training.start_from)
    needed_vectors = vectors_for(configs, vectors)
    splits = ingest_dataset(data)
    require_examples(splits, examples)
    encoded = encode_dataset(splits, needed_vectors, vocabulary, composes_oov_words(configs))
    trainings = [Training(config, splits, encoded, start) for config in configs]
    trained = train_all(trainings, resources)
    report = report_on(trainings[0], trained)
    errors = [error_report(splits, output, examples) for output in trained]
    return TrainedVariants(splits, trained, report, errors)


@flow(
    name="train",
    description=__doc__,
    timeout_seconds=settings().time_limit_hours * 3600,
    **CLEANUP_HOOKS,
)
@report_user_errors
def train(
    data: DataParameters = DataParameters(),
    variants: Variants = ["baseline", "char"],
    vectors: VectorParameters = VectorParameters(),
    vocabulary: VocabularyParameters = VocabularyParameters(),
    training: TrainingParameters = TrainingParameters(),
    resources: Resources = Resources(),
    examples: Examples = [],
) -> dict[str, Any]:
    """Train the variants on a dataset, and return their scores and the path of the report.

    The champion does not change: only `retrain` promotes.
    """
    trained = train_variants(data, variants, vectors, vocabulary, training, resources, examples)
    publish(trained)
    return trained.summary()


if __name__ == "__main__":
    announce(run_from_command_line(train))
