"""Flow `retrain`: train the variants, and promote the best one if it beats the champion."""

from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.commands.flow_command import flow_command
from flows.common.failures import TRAINING_FLOW, report_user_errors
from flows.common.parameters import (
    DataParameters,
    TrainingParameters,
    Variants,
    VectorParameters,
    VocabularyParameters,
)
from flows.common.promote import promote_best
from flows.common.publish import publish
from flows.train import announce, train_variants
from infra.artifacts.in_use import stages_in_use, stages_of_newest_runs
from infra.cluster.allotment import Resources
from infra.errors import UserError
from infra.settings import settings
from tasks.evaluation.promotion_rule import PromotionRule
from tasks.tracking.garbage_collection import prune, retire


@flow(
    name="retrain",
    description=__doc__,
    **TRAINING_FLOW,
)
@report_user_errors
def retrain(
    data: DataParameters,
    variants: Variants = ["baseline", "char"],
    training: TrainingParameters = TrainingParameters(),
    vectors: VectorParameters = VectorParameters(),
    vocabulary: VocabularyParameters = VocabularyParameters(),
    resources: Resources = Resources(),
    promotion: PromotionRule = PromotionRule(),
) -> State[dict[str, Any]]:
    """Train the variants on a dataset, and promote the best one if it beats the champion.

    Returns the scores, the decision and the path of the report. The run's message is the decision,
    or "Nothing to do" if data, parameters and code are unchanged.
    """
    trained = train_variants(data, variants, training, vectors, vocabulary, resources)
    try:
        result = promote_best(trained.splits, trained.variants, promotion)
    except UserError:
        publish(trained)  # show the trained variants even if the promotion fails
        raise
    report = publish(trained, result)
    remove_old_runs(trained.splits.name)
    summary = trained.summary(report, result)
    message = result.sentence if trained.new or result.decision else trained.unchanged
    # The state keeps its standard name: the list of a deployment's runs leaves others out.
    return Completed(message=message, data=summary)


def remove_old_runs(dataset: str) -> None:
    """Retire runs beyond the number that `keep_runs` sets, and prune stages no longer needed.

    A failure is logged, not raised: the run's results are published already.
    """
    try:
        # Old runs of variants that are still compared are kept, and so are those that a repetition
        # of each flow's newest run would take from the cache.
        in_use = stages_in_use() | stages_of_newest_runs()
        retired = retire(f"bidaflow/{dataset}", settings().keep_runs, in_use)
        if retired:
            removed = prune()
            get_run_logger().info(
                f"Removed {len(retired)} old MLflow runs and {len(removed)} unused folders"
            )
    except Exception as error:  # else, a retry would send the decision a second time
        get_run_logger().warning(
            f"Old runs of {dataset} were not all removed: {error} The next `bidaflow retrain` "
            "removes the rest."
        )


command = flow_command(retrain, announce, data=DataParameters())
