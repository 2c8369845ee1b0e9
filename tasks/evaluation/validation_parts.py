"""Divides validation by article: one part stops trainings, the other decides on promotions.

Of equal models, the one whose epoch was chosen on some questions looks better on these. A decision
on them would promote equal models too often, and at every scheduled run anew.
"""

from collections import defaultdict
from hashlib import blake2b

import numpy as np

from models.arrays import BoolArray
from tasks.datasets.feedback import FEEDBACK
from tasks.evaluation.evaluate import EvaluationSplit

# Epochs of one training are more alike than two models, so fewer questions tell them apart.
STOPPING_SHARE = 1 / 3
# Fewest articles that show whether a model is better than the champion on other articles, too.
LEAST_DECIDING_ARTICLES = 8


def is_deciding(split: EvaluationSplit) -> BoolArray:
    """Whether the article of each question of validation is in the part that decides, (n,).

    It depends only on the texts of the article's contexts, so an article keeps its part as data
    grow. Only the article with the lowest number may move: it is always in the part that stops.
    Passages of feedback decide, so that a promotion sees what the corrections are about.
    """
    texts: defaultdict[int, set[str]] = defaultdict(set)
    for article, context in set(zip(split.article_of, split.context_of, strict=True)):
        texts[article].add(split.contexts[context])
    numbers = {article: _number("\n".join(sorted(own))) for article, own in texts.items()}
    corrected = {
        split.contexts[context]
        for id, context in zip(split.ids, split.context_of, strict=True)
        if id.startswith(FEEDBACK)
    }
    for article, own in texts.items():
        if own & corrected:
            numbers[article] = STOPPING_SHARE + (1 - STOPPING_SHARE) * numbers[article]
    limit = max(STOPPING_SHARE, np.nextafter(min(numbers.values()), 1))
    return np.array([numbers[article] >= limit for article in split.article_of], dtype=np.bool_)


def is_stopping(split: EvaluationSplit) -> BoolArray:
    """Whether each question of validation has a part in the choice of the epoch, (n,): all have if
    the other part has too few articles to promote a model over a champion."""
    deciding = is_deciding(split)
    articles = len(np.unique(split.article_of[deciding]))
    return ~deciding if articles >= LEAST_DECIDING_ARTICLES else np.ones_like(deciding)


def _number(text: str) -> float:
    """A pseudorandom number in [0, 1) that depends only on the text."""
    digest = blake2b(f"decide {text}".encode(errors="surrogatepass"), digest_size=7)
    return int.from_bytes(digest.digest()) / 2**56
