"""An epoch's metrics on a split: over all questions, and over those with short contexts."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.batching import Examples, Ragged
from models.span_decoding import Predictions
from tasks.evaluation.evaluate import Evaluation, evaluate, load_split
from tasks.evaluation.metrics import (
    Bin,
    best_threshold,
    evaluation_metrics,
    expected_calibration_error,
    kind_weights,
    mean_nll,
    metrics_within,
    no_answer_auc,
    no_answer_metrics,
    no_threshold_reason,
    reliability,
    roc_curve,
    scores_at,
    share_to_expect,
    threshold_of_best_score,
)
from tests.factories.splits import write_split


@pytest.fixture
def evaluation(tmp_path: Path) -> Evaluation:
    """Four answers: right, a span for an unanswerable question, partly right, wrong."""
    spans = np.array([(0, 1), (0, 0), (2, 2), (0, 0)]).T
    scores = np.full(4, -0.5)
    return evaluate(load_split(write_split(tmp_path)), Predictions(*spans, scores, scores - 1))


def test_within_metrics_exclude_long_contexts(evaluation: Evaluation) -> None:
    overall = evaluation_metrics("dev", evaluation)
    assert (overall["dev/em"], overall["dev/avna"]) == (25, 75)
    split_lengths = np.array([5, 5, 3, 2])
    within = metrics_within("dev", evaluation, split_lengths <= 3)
    assert within == {
        "dev/questions_within": 2,
        "dev/em_within": 0,
        "dev/f1_within": pytest.approx(100 / 3),
        "dev/avna_within": 100,
    }
    same = metrics_within("dev", evaluation, split_lengths <= 5)
    assert same["dev/questions_within"] == 4
    assert same["dev/f1_within"] == overall["dev/f1"]
    nothing = metrics_within("dev", evaluation, split_lengths <= 1)
    assert nothing == {"dev/questions_within": 0}


def test_mean_nll_propagates_nan_of_target_rows() -> None:
    nlls = np.array([1.0, math.nan, 4.0, 7.0])
    assert mean_nll(nlls, np.array([True, False, False, True])) == 4
    assert math.isnan(mean_nll(nlls, np.array([True, True, False, False])))
    assert math.isnan(mean_nll(nlls, np.zeros(4, bool)))


def test_bins_and_error_match_a_worked_example() -> None:
    bins = reliability(np.array([0.95, 0.05, 0.95, 1.0, 0.5]), np.array([1, 0, 0, 1, 1]))
    assert bins == [
        Bin(pytest.approx(0.05), 0.0, 1),
        Bin(pytest.approx(0.5), 1.0, 1),
        Bin(pytest.approx(2.9 / 3), pytest.approx(2 / 3), 3),
    ]
    # (1·0.05 + 1·0.5 + 3·0.3) / 5
    assert expected_calibration_error(bins) == pytest.approx(29)


def test_error_without_answers_is_nan() -> None:
    assert math.isnan(expected_calibration_error(reliability(np.array([]), np.array([]))))


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=50))
def test_every_answer_falls_in_one_bin(answers: list[tuple[float, int]]) -> None:
    probability, em = np.array(answers).T
    bins = reliability(probability, em)
    assert sum(b.count for b in bins) == len(answers)
    assert sum(b.count * b.accuracy for b in bins) == pytest.approx(em.sum())
    error = expected_calibration_error(bins)
    assert abs(100 * (probability.mean() - em.mean())) - 1e-9 <= error <= 100


def test_calibrated_model_has_a_small_error() -> None:
    random = np.random.default_rng(0)
    probability = random.random(100_000)
    em = random.random(100_000) < probability
    assert expected_calibration_error(reliability(probability, em)) < 1
    assert expected_calibration_error(reliability(probability, ~em)) > 40


# Few distinct values, so that ties are common.
QUESTIONS = st.lists(
    st.tuples(
        st.sampled_from([-2.0, -0.5, 0.0, 0.1, 3.0]) | st.floats(-9, 9),
        st.sampled_from([0.0, 0.25, 1.0]),
        st.sampled_from([0.0, 1.0]),
    ),
    min_size=1,
    max_size=12,
)


def scored(questions: list[tuple[float, float, float]], threshold: float) -> float:
    """The mean score (percent), computed question by question."""
    return 100 * float(np.mean([none if m >= threshold else own for m, own, none in questions]))


@given(QUESTIONS)
def test_best_score_matches_exhaustive_search(questions: list[tuple[float, float, float]]) -> None:
    columns = np.array(questions).T
    # The thresholds at each margin and just above it cover all cases.
    tried = np.array([t for m in columns[0] for t in (m, np.nextafter(m, np.inf))])
    expected = [scored(questions, threshold) for threshold in tried]
    assert scores_at(tried, *columns) == pytest.approx(expected)
    best = threshold_of_best_score(*columns)
    assert scored(questions, best) == pytest.approx(max(expected))
    assert scored(questions, best) >= scored(questions, 0.0) - 1e-9


def test_argmax_is_kept_if_nothing_is_gained() -> None:
    """Any threshold in (-1, 2] separates these two questions, and 0 is the argmax."""
    margin = np.array([-1.0, 2.0])
    assert threshold_of_best_score(margin, np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 0


def test_threshold_is_halfway_between_margins() -> None:
    margin = np.array([1.0, 2.0])
    assert threshold_of_best_score(margin, np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1.5


def test_best_threshold_maximizes_f1(tmp_path: Path) -> None:
    """Only the second question has no answer; its margin exceeds the others'."""
    split = load_split(write_split(tmp_path))
    margins = np.array([1.0, 5.0, 2.0, 3.0])
    predictions = Predictions(
        np.array([0, 0, 1, 1]), np.array([1, 0, 2, 1]), np.full(4, -9.0), margins - 9
    )
    assert best_threshold(split, predictions, 0.25) == 4
    assert evaluate(split, predictions, 4).scores.em == 100
    assert evaluate(split, predictions).scores.em == 25


BOTH_KINDS = st.lists(
    st.tuples(st.sampled_from([-2.0, -0.5, 0.0, 0.1, 3.0]) | st.floats(-9, 9), st.booleans()),
    min_size=2,
    max_size=15,
).filter(lambda rows: len({kind for _, kind in rows}) == 2)


@given(BOTH_KINDS, st.floats(0.01, 0.99), st.data())
def test_weighted_threshold_matches_exhaustive_search(
    rows: list[tuple[float, bool]], expected: float, data: st.DataObject
) -> None:
    """The best threshold for a split in which the two kinds had the expected shares."""
    margin = np.array([m for m, _ in rows])
    answerable = np.array([kind for _, kind in rows])
    score = st.sampled_from([0.0, 0.25, 1.0])
    answered = np.array([data.draw(score) if kind else 0.0 for kind in answerable])
    unanswered = (~answerable).astype(float)
    weights = kind_weights(answerable, expected)
    assert weights.mean() == pytest.approx(1)
    assert weights[~answerable].sum() / len(rows) == pytest.approx(expected)

    def expected_score(threshold: float) -> float:
        scores = np.where(margin >= threshold, unanswered, answered)
        shares = ((answerable, 1 - expected), (~answerable, expected))
        return float(sum(share * scores[kind].mean() for kind, share in shares))

    best = threshold_of_best_score(margin, weights * answered, weights * unanswered)
    tried = [t for m in margin for t in (m, np.nextafter(m, np.inf))]
    assert expected_score(best) == pytest.approx(max(map(expected_score, tried)))


@pytest.mark.parametrize("answerable", [True, False])
def test_one_kind_of_questions_has_no_weights(answerable: bool) -> None:
    with pytest.raises(ValueError, match="needs answerable and unanswerable"):
        kind_weights(np.full(3, answerable), 0.5)


def test_threshold_depends_on_the_expected_share(tmp_path: Path) -> None:
    """The unanswerable question and an answered one have the same margin."""
    split = load_split(write_split(tmp_path))
    margins = np.array([1.0, 3.0, 2.0, 3.0])
    spans = np.array([(0, 1), (0, 0), (1, 2), (1, 1)]).T
    predictions = Predictions(*spans, np.full(4, -9.0), margins - 9)
    assert best_threshold(split, predictions, 0.1) > 3
    assert best_threshold(split, predictions, 0.9) <= 3


@given(BOTH_KINDS)
def test_auc_is_the_share_of_ordered_pairs(rows: list[tuple[float, bool]]) -> None:
    margin = np.array([m for m, _ in rows])
    answerable = np.array([kind for _, kind in rows])
    pairs = [
        1.0 if none > own else 0.5 if none == own else 0.0
        for none in margin[~answerable]
        for own in margin[answerable]
    ]
    assert no_answer_auc(margin, answerable) == pytest.approx(np.mean(pairs))
    false, true = roc_curve(margin, answerable)
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert (np.diff(false) >= 0).all() and (np.diff(true) >= 0).all()


def test_auc_needs_both_kinds(tmp_path: Path) -> None:
    margin = np.array([1.0, 2.0])
    assert no_answer_auc(margin, np.array([True, True])) is None
    assert no_answer_auc(margin, np.array([False, False])) is None
    predictions = Predictions(*np.zeros((2, 4), int), np.full(4, -9.0), np.array([0, 2, 1, 1]) - 9)
    both = load_split(write_split(tmp_path))
    assert no_answer_metrics("dev", both, predictions) == {"dev/no_answer_auc": 1.0}
    folder = tmp_path / "answered"
    folder.mkdir()
    answered = load_split(write_split(folder, answered_only=True))
    shorter = Predictions(*np.zeros((2, 3), int), np.full(3, -9.0), np.full(3, -8.0))
    assert no_answer_metrics("dev", answered, shorter) == {}


def examples(impossible: list[bool]) -> Examples:
    nothing = np.zeros(len(impossible), dtype=np.int32)
    rows = Ragged.from_rows([[2]] * len(impossible))
    return Examples(rows, rows, nothing, nothing, nothing, np.array(impossible))


def test_explains_why_there_is_no_threshold() -> None:
    both = examples([True, False])
    assert "training split has no unanswerable" in str(no_threshold_reason(examples([False]), both))
    assert "no validation split" in str(no_threshold_reason(both, None))
    assert "validation split lacks" in str(no_threshold_reason(both, examples([True])))
    assert "validation split lacks" in str(no_threshold_reason(both, examples([False, False])))
    assert no_threshold_reason(both, both) is None


def test_expected_share_defaults_to_the_share_in_train() -> None:
    train = examples([True, False, False, False])
    assert share_to_expect(None, train) == 0.25
    assert share_to_expect(0.5, train) == 0.5
