"""Held-out articles: how many, which ones, and that most keep their part when others are added."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.data.partition import Shares, divide, has_validation

shares = st.builds(
    Shares, validation=st.floats(0, 0.99), dev=st.floats(0, 0.99), seed=st.integers(0)
)


@given(files=st.lists(st.lists(st.text())), shares=shares)
def test_every_article_is_assigned_and_train_not_empty(
    files: list[list[str]], shares: Shares
) -> None:
    articles = [text for file in files for text in file]
    counts = Counter(divide(files, shares))
    assert sum(counts.values()) == len(articles)
    assert counts["train"] >= min(1, len(articles))
    assert bool(counts["dev"]) == (shares.dev > 0 and len(articles) > 1)
    assert bool(counts["validation"]) == has_validation(len(articles), shares)
    if counts["train"] > 1:
        assert abs(counts["dev"] - shares.dev * len(articles)) <= 1
        assert abs(counts["validation"] - shares.validation * len(articles)) <= 1


def test_assignment_ignores_article_order() -> None:
    articles = [f"article {i}" for i in range(50)]
    shares = Shares(validation=0.2, dev=0.1, seed=3)
    before = dict(zip(articles, divide([articles], shares), strict=True))
    shuffled = Random(1).sample(articles, len(articles))
    assert dict(zip(shuffled, divide([shuffled], shares), strict=True)) == before


def test_adding_articles_moves_few_others() -> None:
    articles = [f"article {i}" for i in range(330)]
    shares = Shares(validation=0.1, dev=0.1, seed=3)
    old, new = divide([articles[:300]], shares), divide([articles], shares)
    moved = sum(before != after for before, after in zip(old, new[:300], strict=True))
    assert moved <= 12, "a new random draw would move about 110"


def test_assignment_depends_on_the_seed() -> None:
    articles = [f"article {i}" for i in range(20)]
    drawn = {tuple(divide([articles], Shares(dev=0.1, seed=seed))) for seed in range(20)}
    assert len(drawn) > 10


def test_duplicate_articles_are_divided_normally() -> None:
    assert Counter(divide([["unknown_title"] * 10], Shares(dev=0.2, seed=3))) == {
        "dev": 2,
        "train": 8,
    }


def article_names(*sizes: int) -> list[list[str]]:
    return [[f"{file}-{i}" for i in range(size)] for file, size in enumerate(sizes)]


def validation_counts(files: list[list[str]], shares: Shares) -> list[int]:
    """The number of validation articles in each file."""
    parts = iter(divide(files, shares))
    return [sum(next(parts) == "validation" for _ in file) for file in files]


@pytest.mark.parametrize("seed", range(5))
def test_validation_takes_its_share_of_each_file(seed: int) -> None:
    shares = Shares(validation=0.1, seed=seed)
    assert validation_counts(article_names(720, 19), shares) == [72, 2]
    assert validation_counts(article_names(10, 120, 4), shares) == [1, 11, 1]
    assert sum(validation_counts(article_names(*[3] * 40), shares)) == 12, (
        "no more than a tenth in total"
    )
    assert validation_counts(article_names(*[3] * 40), shares).count(1) == 12, (
        "from as many files as possible"
    )
    with_dev = Shares(validation=0.1, dev=0.1, seed=seed)
    assert min(validation_counts(article_names(300, 30), with_dev)) >= 2


def test_single_article_files_divide_like_one_file() -> None:
    shares = Shares(validation=0.1, dev=0.1, seed=3)
    (articles,) = article_names(60)
    assert divide([[text] for text in articles], shares) == divide([articles], shares)


def test_adding_a_file_moves_few_articles() -> None:
    files, shares = article_names(*[10] * 30), Shares(validation=0.1, seed=3)
    before, after = divide(files[:-1], shares), divide(files, shares)
    assert sum(old != new for old, new in zip(before, after, strict=False)) <= 2
