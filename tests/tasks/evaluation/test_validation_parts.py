"""The division of validation into the articles that stop trainings and those that decide."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tasks.evaluation.evaluate import EvaluationSplit, load_split
from tasks.evaluation.validation_parts import is_deciding, is_stopping
from tests.factories.splits import write_split


def validation(base: EvaluationSplit, articles: list[str]) -> EvaluationSplit:
    """A split of articles with these texts, of two contexts each and a question about each."""
    rows = np.arange(2 * len(articles))
    texts = [f"{text} {part}" for text in articles for part in "ab"]
    return replace(
        base,
        contexts=texts,
        ids=texts,
        questions=texts,
        context_of=rows,
        golds=[[] for _ in rows],
        answerable=rows < 0,
        article_of=rows // 2,
    )


@pytest.fixture
def base(tmp_path: Path) -> EvaluationSplit:
    return load_split(write_split(tmp_path))


def test_articles_keep_their_part_as_data_grow(base: EvaluationSplit) -> None:
    few, many = [f"article {n}" for n in range(60)], [f"article {n}" for n in range(300)]
    parts = is_deciding(validation(base, many)).reshape(-1, 2)
    assert (parts[:, 0] == parts[:, 1]).all()
    assert parts[:, 0].mean() == pytest.approx(2 / 3, abs=0.1)
    grown = is_deciding(validation(base, many[::-1])).reshape(-1, 2)[::-1]
    assert (grown == parts).all(), "whatever the order"
    assert (is_deciding(validation(base, few)).reshape(-1, 2) == parts[:60]).all()


def test_equal_articles_share_a_part(base: EvaluationSplit) -> None:
    parts = is_deciding(validation(base, [f"article {n % 20}" for n in range(40)]))
    assert (parts[:40] == parts[40:]).all()


def test_all_passages_of_feedback_decide(base: EvaluationSplit) -> None:
    """Also for questions of other files about them, else a passage would stop and decide."""
    split = validation(base, [f"article {n % 30}" for n in range(60)])
    ids = [f"feedback-{n}" if n in range(20, 40) else text for n, text in enumerate(split.ids)]
    parts = is_deciding(replace(split, ids=ids)).reshape(-1, 2)
    assert parts[10:20].all() and parts[40:50].all()
    others = is_deciding(split).reshape(-1, 2)
    assert not others[10:20].all()
    assert (parts[:10] == others[:10]).all() and (parts[20:40] == others[20:40]).all()


@pytest.mark.parametrize("articles", [1, 2, 5, 30])
def test_some_article_stops_the_training(base: EvaluationSplit, articles: int) -> None:
    split = validation(base, [f"article {n}" for n in range(articles)])
    deciding, stopping = is_deciding(split), is_stopping(split)
    assert not deciding.all()
    if articles < 30:
        assert stopping.all(), "too few decide, so all may stop"
    else:
        assert (stopping == ~deciding).all()
