"""Flow `train`: train, evaluate and register variants on a dataset, and write a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prefect import flow

from flows.commands.flow_command import flow_command
from flows.common.casing import require_same_casing
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
    ExampleQuestions,
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


@dataclass(frozen=True)
class TrainingInputs:
    """What a training reads: a dataset, word vectors, and a vocabulary."""

    data: DataParameters
    vectors: VectorParameters
    vocabulary: VocabularyParameters


def train_variants(
    inputs: TrainingInputs,
    variants: Variants,
    training: TrainingParameters,
    resources: Resources,
    examples: Sequence[str],
) -> TrainedVariants:
    """Ingest, encode, train and report: the steps that `train` and `retrain` share.

    A step whose inputs, parameters and code are unchanged comes from the cache.
    """
    require_same_casing([inputs.vectors], inputs.vocabulary)
    recommended = recommended_training(inputs.data)
    configs = [configure(name, recommended, training.changes()) for name in variants]
    start = model_to_start_from(training.start_from)
    vectors = vectors_for(configs, inputs.vectors)
    splits = ingest_dataset(inputs.data)
    require_examples(splits, examples)
    encoded = encode_dataset(splits, vectors, inputs.vocabulary, composes_oov_words(configs))
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
    examples: ExampleQuestions = [],
) -> dict[str, Any]:
    """Train the variants on a dataset, and return their scores and the path of the report.

    The champion does not change: only `retrain` promotes.
    """
    inputs = TrainingInputs(data, vectors, vocabulary)
    trained = train_variants(inputs, variants, training, resources, examples)
    publish(trained)
    return trained.summary()


command = flow_command(train, announce)
