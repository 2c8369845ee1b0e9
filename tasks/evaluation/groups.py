"""The groups of questions that comparisons of models draw as a whole.

Answers to questions about one text depend on each other, so that single questions would make
intervals too narrow.
"""

import numpy as np

from models.arrays import IntArray

# Fewest articles from which the variation between articles is estimated.
LEAST_ARTICLES = 5


def choose_groups(article_of: IntArray, context_of: IntArray) -> IntArray:
    """The group of each question, (n,), from its article and its context: the article, or with few
    articles the context.

    Few articles would not show how much articles vary: intervals would be too wide to be of use.
    """
    return article_of if len(np.unique(article_of)) >= LEAST_ARTICLES else context_of
