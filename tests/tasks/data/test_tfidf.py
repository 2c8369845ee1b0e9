"""The ranking of paragraphs by TF-IDF."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tasks.data.tfidf import TfIdf

TOKENS = st.sampled_from(["mill", "Mill", "river", "bridge", "?", ".", "old"])
TEXTS = st.lists(TOKENS, max_size=8).map(" ".join)


def dense_scores(paragraphs: list[str], question: str) -> list[float]:
    """The cosines, from the whole matrix of weights."""
    texts = [text.lower().split() for text in (*paragraphs, question)]
    words = ["mill", "river", "bridge", "old"]
    counts = np.array([[text.count(word) for word in words] for text in texts], dtype=float)
    in_paragraphs = (counts[:-1] > 0).sum(axis=0)
    weights = counts * (1 + np.log((1 + len(paragraphs)) / (1 + in_paragraphs)))
    lengths = np.maximum(np.linalg.norm(weights, axis=1), 1e-30)
    return (weights[:-1] @ weights[-1] / lengths[:-1]).tolist()


@given(st.lists(TEXTS, max_size=6), TEXTS)
def test_ranks_by_cosine_of_weights(paragraphs: list[str], question: str) -> None:
    ranking = TfIdf(paragraphs).ranking(question)
    assert sorted(ranking) == list(range(len(paragraphs)))
    scores = dense_scores(paragraphs, question)
    for before, after in pairwise(ranking):
        assert scores[before] >= scores[after] - 1e-12
        if paragraphs[before] == paragraphs[after]:
            assert before < after


def test_rare_words_count_more() -> None:
    paragraphs = ["the mill", "the river", "a bridge"]
    assert TfIdf(paragraphs).ranking("the bridge") == [2, 0, 1]
    assert TfIdf(paragraphs).ranking("nothing") == [0, 1, 2]
