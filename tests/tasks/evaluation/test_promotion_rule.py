"""The promotion rule on planted answers: better, equal, worse, better except in a slice."""

import re
from pathlib import Path

import numpy as np
import pytest

from tasks.evaluation.evaluate import load_split
from tasks.evaluation.floor import NO_ANSWER, floor_f1
from tasks.evaluation.promotion_rule import (
    Decision,
    PromotionRule,
    decide,
    decide_promotion,
    markdown,
)
from tasks.evaluation.slices import guarded_slices
from tasks.evaluation.validation_parts import is_deciding
from tasks.text.vocabulary import Lexicon
from tests.factories.splits import ingest_articles_with_answers, write_split

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


# The decision with its floor, and with the questions that may decide


def decided_on(
    folder: Path,
    challenger: float,
    champion: float | None = None,
    *,
    articles: int = 12,
    questions: int = 10,
    chose_epoch: bool = False,
    new: int | None = None,
) -> Decision:
    """The decision on a challenger and a champion that answer shares of the answerable questions
    correctly; the contexts of the first `new` articles are new to both."""
    split = load_split(ingest_articles_with_answers(folder / "split", articles, questions))
    models = [
        None if share is None else np.where(split.answerable, order(len(split)) < share, 0.0)
        for share in (challenger, champion)
    ]
    is_new = split.article_of < (articles if new is None else new)
    return decide_promotion(split, is_new, chose_epoch, *models, {}, PromotionRule())


def order(questions: int) -> np.ndarray:
    """Numbers from 0 to 1, in random order."""
    return np.random.default_rng(1).permutation(questions) / questions


def test_first_champion_must_exceed_the_floor(tmp_path: Path) -> None:
    """In the split, the first sentence's best span answers 80 % of the questions."""
    decision = decided_on(tmp_path, 0.3)
    assert not decision.promoted and decision.parts == []
    assert decision.floor is not None and decision.floor.champion == 80
    assert decision.reason.startswith(
        "it does not exceed the floor, the first sentence's best span, beyond chance: F1 fell from"
    )
    assert "Floor, the first sentence's best span: F1 fell from 80.0" in markdown(decision)


def test_no_answer_to_everything_is_no_champion(tmp_path: Path) -> None:
    """Its F1 is the share of unanswerable questions."""
    split = load_split(ingest_articles_with_answers(tmp_path / "split", 12, unanswerable=10))
    new = np.ones(len(split), dtype=bool)
    nothing = floor_f1(split)[NO_ANSWER]
    for champion in (None, np.zeros(len(split))):
        decision = decide_promotion(split, new, False, nothing, champion, {}, PromotionRule())
        assert not decision.promoted and 'floor, always "no answer"' in decision.reason


def test_first_champion_exceeds_the_floor(tmp_path: Path) -> None:
    split = load_split(ingest_articles_with_answers(tmp_path / "split", 12))
    new, perfect = np.ones((2, len(split)))
    decision = decide_promotion(split, new > 0, False, perfect, None, {}, PromotionRule())
    assert decision.promoted and "F1 rose from 80.0 to 100.0 (95 % interval" in decision.reason
    champion = np.where(split.answerable, 1.0, 0.0)
    decision = decide_promotion(split, new > 0, False, perfect, champion, {}, PromotionRule())
    assert decision.promoted and decision.floor is not None
    assert [part.name for part in decision.parts] == ["all"]


@pytest.mark.parametrize("champion", [None, 0.1])
def test_too_few_questions_never_decide(tmp_path: Path, champion: float | None) -> None:
    """Also if none is left out."""
    decision = decided_on(tmp_path, 1, champion, articles=14, questions=2)
    assert not decision.promoted
    assert "only 28 questions can decide, and 30 are needed, 2 more" in decision.reason


def test_too_few_articles_replace_no_champion(tmp_path: Path) -> None:
    decision = decided_on(tmp_path, 1, 0, articles=12, new=5)
    assert not decision.promoted
    assert "only 5 articles can decide, and 8 are needed, 3 more" in decision.reason


def test_articles_that_chose_the_epoch_do_not_decide(tmp_path: Path) -> None:
    split = load_split(ingest_articles_with_answers(tmp_path / "split", 40))
    new, worse = np.ones(len(split), dtype=bool), np.where(split.answerable, 1.0, 0.0)
    lucky = np.where(is_deciding(split), worse, 1.0)  # better where its epoch was chosen
    for chose_epoch in (True, False):
        arguments = split, new, chose_epoch, lucky, worse, {}, PromotionRule()
        assert decide_promotion(*arguments).promoted != chose_epoch
    decided = decide_promotion(split, new, True, np.ones(len(split)), worse, {}, PromotionRule())
    assert decided.parts[0].questions == is_deciding(split).sum()


def test_few_articles_decide_on_a_first_champion(tmp_path: Path) -> None:
    split = load_split(ingest_articles_with_answers(tmp_path / "split", 5))
    new, perfect = np.ones((2, len(split)))
    decision = decide_promotion(split, new > 0, True, perfect, None, {}, PromotionRule())
    assert decision.promoted and decision.floor is not None
    assert decision.floor.questions == len(split)
