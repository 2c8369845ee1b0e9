"""Articles held out of training: how many, which, and that most stay where they are."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tasks.held_out import Shares, divide, has_validation

shares = st.builds(
    Shares, validation=st.floats(0, 0.99), dev=st.floats(0, 0.99), seed=st.integers(0)
)


@given(articles=st.lists(st.text()), shares=shares)
def test_every_article_has_a_part_and_train_is_never_empty(
    articles: list[str], shares: Shares
) -> None:
    counts = Counter(divide(articles, shares))
    assert sum(counts.values()) == len(articles)
    assert counts["train"] >= min(1, len(articles))
    assert bool(counts["dev"]) == (shares.dev > 0 and len(articles) > 1)
    assert bool(counts["validation"]) == has_validation(len(articles), shares)
    if counts["train"] > 1:
        assert abs(counts["dev"] - shares.dev * len(articles)) <= 1
        assert abs(counts["validation"] - shares.validation * len(articles)) <= 1


def test_the_order_of_the_articles_does_not_count() -> None:
    articles = [f"article {i}" for i in range(50)]
    shares = Shares(validation=0.2, dev=0.1, seed=3)
    before = dict(zip(articles, divide(articles, shares), strict=True))
    shuffled = Random(1).sample(articles, len(articles))
    assert dict(zip(shuffled, divide(shuffled, shares), strict=True)) == before


def test_most_articles_stay_where_they_are_when_some_are_added() -> None:
    articles = [f"article {i}" for i in range(330)]
    shares = Shares(validation=0.1, dev=0.1, seed=3)
    old, new = divide(articles[:300], shares), divide(articles, shares)
    moved = sum(before != after for before, after in zip(old, new[:300], strict=True))
    assert moved <= 12, "drawn afresh it would be about 110"


def test_the_seed_draws() -> None:
    articles = [f"article {i}" for i in range(20)]
    drawn = {tuple(divide(articles, Shares(dev=0.1, seed=seed))) for seed in range(20)}
    assert len(drawn) > 10


def test_equal_articles_are_divided_like_others() -> None:
    assert Counter(divide(["unknown_title"] * 10, Shares(dev=0.2, seed=3))) == {
        "dev": 2,
        "train": 8,
    }
