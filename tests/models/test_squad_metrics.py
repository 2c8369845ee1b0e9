from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.squad_metrics import (
    answer_versus_none,
    exact_match,
    f1,
    in_units,
    mean_scores,
    normalize_answer,
    score_questions,
)

VOCABULARY = ["cat", "dog", "bird", "the", "a", "-", "!"]
WORDS = st.lists(st.sampled_from(VOCABULARY), max_size=5).map(" ".join)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Cat\tsat.\n", "cat sat"),
        ("a", ""),
        ("The", ""),
        ("an apple a day", "apple day"),
        ("theatre banana", "theatre banana"),
        ("U.S.", "us"),
        ("gold-themed", "goldthemed"),
        ("l'a mer", "la mer"),
        ("A.", ""),
        ("the-end", "theend"),
        ("vitamin A \u2013 B", "vitamin \u2013 b"),
        ("a\u2013b", "\u2013b"),
        ("on\u2014the\u2014run", "on\u2014 \u2014run"),
        ("“the cat”", "“ cat”"),
        ("1\u00a0000 \u2009km", "1 000 km"),
        ("É", "é"),
        ("₤5,000", "₤5000"),
        ("£5,000 $7", "£5000 7"),
        ("!?", ""),
        ("", ""),
    ],
)
def test_normalizes_example_answers(text: str, normal: str) -> None:
    assert normalize_answer(text) == normal


@pytest.mark.parametrize(
    ("prediction", "golds", "em", "overlap"),
    [
        ("Denver Broncos", ["Denver Broncos"], 1, 1.0),
        ("the denver broncos!", ["Denver Broncos"], 1, 1.0),
        ("Denver", ["Denver Broncos"], 0, 2 / 3),
        ("Denver", ["Denver Broncos", "in Denver, Colorado"], 0, 2 / 3),
        ("Denver", ["Carolina", "Denver"], 1, 1.0),
        ("Carolina", ["Denver"], 0, 0.0),
        ("Broncos Denver", ["Denver Broncos"], 0, 1.0),
        ("dog dog", ["dog"], 0, 2 / 3),
        ("dog dog cat", ["dog dog bird"], 0, 2 / 3),
        ("1990\u20131994", ["1990-1994"], 0, 0.0),
        ("", ["Denver"], 0, 0.0),
        ("the", ["Denver"], 0, 0.0),
    ],
)
@pytest.mark.parametrize("v2", [False, True])
def test_example_scores_are_equal_under_both_rules(
    prediction: str, golds: list[str], em: int, overlap: float, v2: bool
) -> None:
    assert exact_match(prediction, golds, v2=v2) == em
    assert f1(prediction, golds, v2=v2) == pytest.approx(overlap)


@pytest.mark.parametrize(
    ("prediction", "golds", "v1", "v2"),
    [
        ("a", ["a"], (1, 0.0), (1, 1.0)),
        ("", ["a"], (1, 0.0), (1, 1.0)),
        ("", ["a", "letter"], (1, 0.0), (0, 0.0)),
        ("letter", ["a", "letter"], (1, 1.0), (1, 1.0)),
        ("letter", ["a"], (0, 0.0), (0, 0.0)),
    ],
)
def test_v1_and_v2_rules_differ_on_empty_answers(
    prediction: str, golds: list[str], v1: tuple[int, float], v2: tuple[int, float]
) -> None:
    assert (exact_match(prediction, golds), f1(prediction, golds)) == v1
    assert (exact_match(prediction, golds, v2=True), f1(prediction, golds, v2=True)) == v2


def test_v2_scores_questions_without_gold_answers() -> None:
    assert (exact_match("", [], v2=True), f1("", [], v2=True)) == (1, 1.0)
    assert (exact_match("cat", [], v2=True), f1("cat", [], v2=True)) == (0, 0.0)
    with pytest.raises(ValueError, match=r"v1\.1"):
        f1("cat", [])


def test_avna_uses_unnormalized_texts() -> None:
    assert answer_versus_none("", False) == 1
    assert answer_versus_none("cat", False) == 0
    assert answer_versus_none("", True) == 0
    assert answer_versus_none("dog", True) == 1
    assert answer_versus_none("the", True) == 1


@given(WORDS, st.booleans())
def test_no_prediction_equals_an_unknown_answer(prediction: str, v2: bool) -> None:
    (score,) = score_questions([prediction], [[]], [True], v2=v2)
    assert score == (0, 0, int(bool(prediction)))


def test_aggregate_scores_are_mean_percentages() -> None:
    scores = mean_scores(
        score_questions(["cat", "", "dog sat", "x"], [["Cat"], [], ["dog"], []], v2=True)
    )
    assert (scores.em, scores.avna, scores.count) == (50.0, 75.0, 4)
    assert scores.f1 == pytest.approx(100 * (1 + 1 + 2 / 3 + 0) / 4)


def test_rejects_mismatched_counts_and_no_questions() -> None:
    with pytest.raises(ValueError, match="argument 2 is longer"):
        score_questions(["cat"], [["cat"], ["dog"]])
    with pytest.raises(ValueError, match="no questions"):
        mean_scores([])


def test_article_only_answer_has_em_above_avna() -> None:
    (row,) = score_questions(["the"], [[]], v2=True)
    assert (row.em, row.avna) == (1, 0)


# Other scripts than Latin


@pytest.mark.parametrize(
    ("prediction", "gold", "em", "overlap"),
    [
        ("元朝建立", "元朝", 0, 2 * 2 / 6),
        ("「元朝」。", "元朝", 1, 1.0),  # full-width punctuation is none of the answer
        ("東京タワー", "東京", 0, 2 * 2 / 7),
        ("กรุงเทพ", "กรุง", 0, 2 * 4 / 11),
        ("1999年5月", "1999年", 0, 2 * 2 / 6),  # a number is one unit
        ("القاهرة؟", "القاهرة", 1, 1.0),
        ("القاهرة، مصر", "القاهرة", 0, 2 / 3),
        ("वह है।", "वह है", 1, 1.0),
    ],
)
def test_other_scripts_are_compared_in_units(
    prediction: str, gold: str, em: int, overlap: float
) -> None:
    (score,) = score_questions([prediction], [[gold]], by_units=[True])
    assert (score.em, score.f1) == (em, pytest.approx(overlap))
    (official,) = score_questions([prediction], [[gold]])
    assert (official.em, official.f1) != (score.em, score.f1)


HAN = st.text("元朝建立。，、「」《》 aB7.", max_size=8)


def mlqa_segments(text: str) -> list[str]:
    """What MLQA's script compares for Chinese, with SQuAD's articles left out as here."""
    segments, word = [], ""
    for character in text.lower():
        if character in "元朝建立":
            segments += [*word.split(), character]
            word = ""
        elif character not in "。，、「」《》.":
            word += character
    return [segment for segment in [*segments, *word.split()] if segment != "a"]


@given(HAN, HAN)
def test_units_are_those_of_mlqa(prediction: str, gold: str) -> None:
    left, right = (mlqa_segments(text) for text in (prediction, gold))
    (score,) = score_questions([prediction], [[gold]], [True], by_units=[True])
    assert score.em == (left == right)
    shared = sum((Counter(left) & Counter(right)).values())
    assert score.f1 == pytest.approx(2 * shared / max(1, len(left) + len(right)))
    assert normalize_answer(in_units(gold)).split() == right
