"""Checks that words are looked up in the same case in which their vectors were trained."""

from collections.abc import Sequence

from prefect import get_run_logger

from flows.common.parameters import VectorParameters
from infra.errors import UserError
from tasks.embeddings.formats.store import History
from tasks.embeddings.training.config import METHODS
from tasks.text.build_vocabulary import VocabularyParameters


def require_same_casing(
    vectors: Sequence[VectorParameters], vocabulary: VocabularyParameters
) -> None:
    """Refuse vectors that would be trained in a different case from the vocabulary's.

    Raises:
        UserError: a set would be trained with a `lower_case` that differs from the vocabulary's.
    """
    for source in vectors:
        trained_lower_case = source.corpus.lower_case
        if source.source in METHODS and trained_lower_case != vocabulary.lower_case:
            raise UserError(
                f"vectors.corpus.lower_case is {trained_lower_case}, but vocabulary.lower_case is "
                f"{vocabulary.lower_case}: words with capitals would have no vector. Set both to "
                "the same value."
            )


def warn_if_casing_differs(name: str, history: History, field: str, lower_case: bool) -> None:
    """Log a warning if a set was trained in a different case from what `field` says.

    A set without a record of its case is not checked.
    """
    trained_lower_case = history.get("lower_case", lower_case)
    if trained_lower_case != lower_case:
        get_run_logger().warning(
            f"The vectors {name} were trained with lower_case={trained_lower_case}, but {field} is "
            f"{lower_case}: words with capitals have no vector. Set {field} to "
            f"{trained_lower_case}."
        )
