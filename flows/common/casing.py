"""Checks that words are looked up in the same case in which their vectors were trained."""

from collections.abc import Sequence

from prefect import get_run_logger

from flows.common.parameters import VectorParameters
from infra.errors import UserError
from tasks.embeddings.formats.store import History
from tasks.embeddings.training.config import METHODS
from tasks.text.build_vocabulary import VocabularyParameters


def require_one_case(vectors: Sequence[VectorParameters], vocabulary: VocabularyParameters) -> None:
    """Refuse vectors that would be trained in a different case from the vocabulary's.

    Raises:
        UserError: a set would be trained with a `lower_case` that differs from the vocabulary's.
    """
    for one in vectors:
        learnt = one.corpus.lower_case
        if one.source in METHODS and learnt != vocabulary.lower_case:
            raise UserError(
                f"vectors.corpus.lower_case is {learnt} and vocabulary.lower_case is "
                f"{vocabulary.lower_case}: words with capitals would find no vector; give both "
                "the same value."
            )


def warn_of_another_case(name: str, history: History, field: str, lower_case: bool) -> None:
    """Log a warning if a set was trained in a different case from what `field` says.

    A set without a record of its case is not checked.
    """
    learnt = history.get("lower_case", lower_case)
    if learnt != lower_case:
        get_run_logger().warning(
            f"The vectors {name} were trained with lower_case {learnt}, and {field} is "
            f"{lower_case}: words with capitals find no vector; set {field} to {learnt}."
        )
