"""The floor: no answer to any question, and the best span of each first sentence."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.squad_metrics import mean_scores
from tasks.evaluation.evaluate import load_split
from tasks.evaluation.floor import FIRST_SENTENCE, NO_ANSWER, floor_f1, floors
from tests.factories.splits import ingest_articles_with_answers, write_split


def test_floors_need_no_reading(tmp_path: Path) -> None:
    """A fifth of the questions has no answer; the others have it at the same place."""
    scores = floors(load_split(ingest_articles_with_answers(tmp_path / "split", 10)))
    means = {name: mean_scores(own) for name, own in scores.items()}
    assert (means[NO_ANSWER].em, means[NO_ANSWER].f1) == (20, 20)
    assert (means[FIRST_SENTENCE].em, means[FIRST_SENTENCE].f1) == (80, 80)


def test_span_stays_in_the_first_sentence(tmp_path: Path) -> None:
    """Answers in later sentences are out of reach, and so are contexts without words."""
    split = load_split(ingest_articles_with_answers(tmp_path / "split", 10))
    late = [f"It is so. {text}" for text in split.contexts[:-1]]
    moved = replace(
        split,
        contexts=[*late, ""],
        first_token=np.append(split.first_token[:-1], split.first_token[-2]),
    )
    assert floor_f1(moved)[FIRST_SENTENCE][split.answerable].max() == 0


def test_v1_questions_need_an_answer(tmp_path: Path) -> None:
    split = load_split(write_split(tmp_path, answered_only=True))
    assert floor_f1(split)[NO_ANSWER] == pytest.approx(np.zeros(3))
