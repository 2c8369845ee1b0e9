"""The choice between articles and contexts as groups of questions."""

import numpy as np
import pytest

from tasks.evaluation.groups import choose_groups


@pytest.mark.parametrize(("articles", "drawn"), [(1, "contexts"), (4, "contexts"), (5, "articles")])
def test_articles_are_groups_if_there_are_enough(articles: int, drawn: str) -> None:
    context_of = np.arange(20) // 2
    article_of = np.arange(20) * articles // 20
    expected = article_of if drawn == "articles" else context_of
    assert choose_groups(article_of, context_of).tolist() == expected.tolist()
