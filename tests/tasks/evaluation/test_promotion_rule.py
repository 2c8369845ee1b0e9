"""The promotion rule on planted answers: better, equal, worse, better except in a slice."""

import re
from pathlib import Path

import numpy as np
import pytest

from tasks.evaluation.evaluate import load_split
from tasks.evaluation.promotion_rule import Decision, PromotionRule, decide, markdown
from tasks.evaluation.slices import guarded_slices
from tasks.text.vocabulary import Lexicon
from tests.factories.splits import write_split

QUESTIONS = 400
RANDOM = np.random.default_rng(0)
CHAMPION = (RANDOM.random(QUESTIONS) < 0.5).astype(float)
OWN_CONTEXTS = np.arange(QUESTIONS)  # one for each question
ONE_ARTICLE = np.zeros(QUESTIONS, int)
FEW = np.arange(QUESTIONS) < 60


def decided(
    challenger: np.ndarray,
    context_of: np.ndarray = OWN_CONTEXTS,
    article_of: np.ndarray = ONE_ARTICLE,
    **rule: float,
) -> Decision:
    slices = {"few": FEW, "rest": ~FEW, "three": np.arange(QUESTIONS) < 3}
    criteria = PromotionRule(**rule)  # type: ignore[arg-type]
    return decide(CHAMPION, challenger, article_of, context_of, slices, criteria)


def with_correct_answers(questions: np.ndarray) -> np.ndarray:
    """The champion's scores, with 1 for the given questions."""
    return np.where(questions, 1.0, CHAMPION)


def test_promotes_a_better_model() -> None:
    decision = decided(with_correct_answers(np.arange(QUESTIONS) % 4 == 0))
    assert decision.promoted
    assert decision.parts[0].gain.low > 0
    assert [part.name for part in decision.parts] == ["all", "few", "rest"], "three is too small"


def test_keeps_the_champion_if_equal() -> None:
    decision = decided(CHAMPION)
    assert not decision.promoted and decision.reason == (
        f"F1 stayed at {100 * CHAMPION.mean():.1f} (95 % interval +0.0 to +0.0); "
        "a gain of at least 0.5 points is required"
    )
    assert decision.parts[0].gain.mean == 0


def test_promotes_an_equal_model_if_min_gain_is_0() -> None:
    assert decided(CHAMPION, min_gain=0).promoted


def test_keeps_the_champion_if_worse() -> None:
    decision = decided(np.where(np.arange(QUESTIONS) % 4 == 0, 0.0, CHAMPION))
    assert not decision.promoted
    pattern = r"F1 fell from \d\d\.\d to \d\d\.\d \(95 % interval −\d\d\.\d to −\d\.\d\)"
    assert re.match(pattern, decision.reason)


def test_keeps_the_champion_if_gain_may_be_chance() -> None:
    shuffled = RANDOM.permutation(CHAMPION)
    shuffled[CHAMPION.argmin()] = 1.0
    decision = decided(shuffled, min_gain=0)
    assert not decision.promoted and "this may be chance" in decision.reason


def test_gain_on_few_contexts_may_be_chance() -> None:
    """The challenger is much better on one of four contexts, and a little worse on the others."""
    worse = np.flatnonzero((CHAMPION == 1) & ~FEW)[::40]
    challenger = with_correct_answers(FEW)
    challenger[worse] = 0
    assert decided(challenger).promoted
    decision = decided(challenger, np.arange(QUESTIONS) // 100)
    assert not decision.promoted and "this may be chance" in decision.reason


@pytest.mark.parametrize(("articles", "promoted"), [(4, True), (5, False)])
def test_gain_of_one_of_several_articles_is_chance(articles: int, promoted: bool) -> None:
    """Of fewer than five articles, contexts are drawn, which say nothing of other articles."""
    article_of = np.arange(QUESTIONS) * articles // QUESTIONS
    challenger = with_correct_answers(article_of == 0)
    assert decided(challenger, article_of=article_of).promoted == promoted


def test_best_of_several_needs_more_certainty() -> None:
    """Else the more variants a run trains, the more often it would promote by chance."""
    better = with_correct_answers(np.arange(QUESTIONS) % 40 == 0)
    lows = []
    for candidates in (1, 4):
        arguments = (CHAMPION, better, ONE_ARTICLE, OWN_CONTEXTS, {}, PromotionRule())
        decision = decide(*arguments, candidates)
        lows.append(decision.parts[0].gain.low)
        level = "95 %" if candidates == 1 else "98.75 %"
        assert f"({level} interval" in decision.reason
        assert f"({level}) |" in markdown(decision)
    assert 0 < lows[1] < lows[0]


def test_keeps_the_champion_if_a_slice_gets_worse() -> None:
    challenger = np.where(FEW, 0.0, with_correct_answers(np.arange(QUESTIONS) % 2 == 0))
    decision = decided(challenger)
    assert decision.parts[0].gain.low > 0.5, "it is better on average"
    assert not decision.promoted and "on the slice 'few', it fell from" in decision.reason
    assert decided(challenger, slice_drop=100).promoted


def test_decision_report_includes_its_numbers() -> None:
    decision = decided(CHAMPION)
    report = markdown(decision)
    assert report.count("\n|") == 1 + 3
    assert "| all | 400 |" in report and "| +0.00 | +0.00 to +0.00 (95 %) |" in report


@pytest.fixture
def lexicon() -> Lexicon:
    known = ["who", "wrote", "notes", "ada", "lovelace", "when", "were", "they", "how", "much"]
    known += ["is", "π", "≈", "3", "?", "to", "whom"]
    return Lexicon({word: i + 2 for i, word in enumerate(known)}, {}, lower_case=True)


def test_slices_by_kind_question_word_and_oov(tmp_path: Path, lexicon: Lexicon) -> None:
    slices = guarded_slices(load_split(write_split(tmp_path)), lexicon)
    members = {name: np.flatnonzero(mask).tolist() for name, mask in slices.items()}
    assert members == {
        "unanswerable": [1],
        "answerable": [0, 2, 3],
        "question word how many": [2],
        "question word when": [1],
        "question word who": [0, 3],
        "unknown words": [1, 3],  # for "written" and the answer "𝔘x"
    }


def test_single_kind_splits_have_no_kind_slices(tmp_path: Path, lexicon: Lexicon) -> None:
    slices = guarded_slices(load_split(write_split(tmp_path, answered_only=True)), lexicon)
    assert not {"answerable", "unanswerable"} & set(slices)
