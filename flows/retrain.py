"""Flow `retrain`: train the variants, and promote the best one if it beats the champion."""

import sys
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.common.cli import parameters_from
from flows.common.hooks import ENDING_RUNS
from flows.common.parameters import DataParameters, TrainingParameters, Variants, VectorParameters
from flows.common.promote import promote_best
from flows.common.results import UNCHANGED, Examples, announce, publish
from flows.common.user_errors import result_or_exit, told_in_a_sentence
from flows.train import train_variants
from infra.artifacts.in_use import used_now
from infra.errors import UserError
from infra.ray_cluster import Resources
from infra.settings import settings
from tasks.evaluation.promotion_rule import PromotionRule
from tasks.text.build_vocabulary import VocabularyParameters
from tasks.tracking.garbage_collection import prune
from tasks.tracking.retention import retire

NOTHING_TO_DO = "Nothing to do"


@flow(
    name="retrain",
    description=__doc__,
    timeout_seconds=settings().time_limit_hours * 3600,
    **ENDING_RUNS,
)
@told_in_a_sentence
def retrain(
    data: DataParameters = DataParameters(),
    variants: Variants = ["baseline", "char"],
    vectors: VectorParameters = VectorParameters(),
    vocabulary: VocabularyParameters = VocabularyParameters(),
    training: TrainingParameters = TrainingParameters(),
    resources: Resources = Resources(),
    promotion: PromotionRule = PromotionRule(),
    examples: Examples = [],
) -> dict[str, Any] | State[Any]:
    """Train the variants on a dataset, and promote the best one if it beats the champion.

    Returns the scores, the decision and the path of the report. If data, parameters and code are
    unchanged, the run ends as "Nothing to do".
    """
    outcome = train_variants(data, variants, vectors, vocabulary, training, resources, examples)
    try:
        contest = promote_best(outcome.splits, outcome.trained, promotion)
    except UserError:
        publish(outcome)  # show the trained variants even if the promotion fails
        raise
    publish(outcome, contest)
    _forget_the_oldest(outcome.splits.name)
    summary = outcome.summary(contest)
    if outcome.new or contest.decision:
        return summary
    return Completed(name=NOTHING_TO_DO, message=UNCHANGED, data=summary)


def _forget_the_oldest(dataset: str) -> None:
    """Retire runs beyond the number that `keep_runs` sets, and prune stages no longer needed."""
    uri = settings().tracking_uri
    spared = used_now()  # old runs of variants that are still compared are kept
    retired = retire(uri, f"bidaflow/{dataset}", settings().keep_runs, spared)
    if retired:
        removed = prune(uri)
        get_run_logger().info(f"{len(retired)} old MLflow runs and {len(removed)} folders removed")


if __name__ == "__main__":
    parameters = parameters_from(sys.argv[1:], retrain)
    announce(result_or_exit(retrain(**parameters, return_state=True)))
