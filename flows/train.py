"""Flow `train`: train, evaluate and register variants on a dataset, and write a report."""

import sys
from collections.abc import Sequence
from typing import Any

from prefect import flow

from flows.common.casing import require_one_case
from flows.common.cli import parameters_from
from flows.common.data_files import suited_to
from flows.common.encoding import encode_dataset
from flows.common.hooks import ENDING_RUNS
from flows.common.parameters import (
    DataParameters,
    TrainingParameters,
    Variants,
    VectorParameters,
    configure,
    reads_spelt_words,
    vectors_for,
)
from flows.common.results import (
    Examples,
    Outcome,
    announce,
    error_report,
    publish,
    require_examples,
)
from flows.common.splits import ingest_dataset
from flows.common.training import Training, report_on, train_all
from flows.common.user_errors import result_or_exit, told_in_a_sentence
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
) -> Outcome:
    """Ingest, encode, train and report: the steps that `train` and `retrain` share.

    A step whose inputs, parameters and code are unchanged comes from the cache.
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
    """Train the variants on a dataset, and return their scores and the path of the report.

    The champion does not change: only `retrain` promotes.
    """
    outcome = train_variants(data, variants, vectors, vocabulary, training, resources, examples)
    publish(outcome)
    return outcome.summary()


if __name__ == "__main__":
    parameters = parameters_from(sys.argv[1:], train)
    announce(result_or_exit(train(**parameters, return_state=True)))
