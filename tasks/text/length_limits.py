"""Says of how many texts a training reads or predicts nothing, because they are too long."""

import math
from collections import Counter

import numpy as np

from models.configs.variant import TrainingConfig

# Smallest share of the texts to mention. Fewer texts of SQuAD exceed the default limits.
NOTABLE = 0.05
# Share of the texts that the proposed limit covers.
COVERED = 0.98


def too_long(
    contexts: Counter[int],
    questions: Counter[int],
    answers: Counter[int],
    training: TrainingConfig,
) -> list[str]:
    """A sentence for each kind of text of which a notable share exceeds the training's limit.

    The counters have the number of texts by length in tokens.
    """
    sentences = []
    limit = training.max_context_tokens
    share = _share_above(contexts, limit)
    if share >= NOTABLE and training.window is None:
        sentences.append(
            f"{share:.0%} of the contexts have more than {limit} tokens, so questions about them "
            "are not trained on. To read them in windows, set training.window_stride, for example "
            f"to {math.ceil(limit / 2)}."
        )
    for kind, lengths, name, effect in (
        ("questions", questions, "max_question_tokens", "they are not trained on"),
        ("answers", answers, "max_answer_tokens", "they can't be predicted"),
    ):
        limit = getattr(training, name)
        share = _share_above(lengths, limit)
        if share >= NOTABLE:
            sentences.append(
                f"{share:.0%} of the {kind} have more than {limit} tokens, so {effect}. Set "
                f"training.{name}, for example to {_covering(lengths)}."
            )
    return sentences


def _share_above(lengths: Counter[int], limit: int) -> float:
    above = sum(count for length, count in lengths.items() if length > limit)
    return above / max(lengths.total(), 1)


def _covering(lengths: Counter[int]) -> int:
    """A multiple of ten that few texts exceed."""
    longest = np.quantile(np.fromiter(lengths.elements(), np.int64), COVERED)
    return 10 * math.ceil(longest / 10)
