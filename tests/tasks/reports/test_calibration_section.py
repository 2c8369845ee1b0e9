"""The report's section on calibration and thresholds, from predictions.parquet to the page."""

import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from models.span_decoding import Predictions
from tasks.evaluation.evaluate import EvaluationSplit, evaluate, load_split, write_predictions
from tasks.reports.calibration_section import calibration_view, scores_by_threshold
from tasks.reports.variant_result import VariantResult
from tasks.tracking.model_logging import model_card
from tests.factories.html import Page, visible_text
from tests.factories.reports import variant, written_report
from tests.factories.splits import write_split

SPANS = [(0, 1), (0, 0), (1, 2), (0, 0)]
MARGINS = np.array([-3.0, -1.0, -2.0, 2.0])


@pytest.fixture
def split(tmp_path: Path) -> EvaluationSplit:
    return load_split(write_split(tmp_path))


def result_of(
    folder: Path, split: EvaluationSplit, threshold: float | None, temperature: float = 1.0
) -> VariantResult:
    """A model that is correct at the threshold -1.5, except on the last question."""
    start, end = np.array(SPANS).T
    predictions = Predictions(start, end, np.full(4, -0.5), MARGINS - 0.5)
    sharper = Predictions(start, end, np.full(4, -0.1), MARGINS - 0.1)
    evaluations = [evaluate(split, own) for own in (predictions, sharper)]
    write_predictions(folder / "predictions.parquet", split, *evaluations)
    table = pq.read_table(folder / "predictions.parquet")
    facts = {"threshold": threshold, "no_threshold": None, "expected_no_answer": None}
    facts |= {"temperature": temperature}
    answers = {name: table[name].to_numpy() for name in table.column_names}
    return VariantResult("made", folder, facts, config={}, history=[], answers=answers)


def test_threshold_scores_match_official_scores(tmp_path: Path, split: EvaluationSplit) -> None:
    start, end = np.array(SPANS).T
    predictions = Predictions(start, end, np.full(4, -0.5), MARGINS - 0.5)
    thresholds = np.array([-9.0, -3.0, -2.5, -1.5, -1.0, 0.0, 2.0, 2.1])
    scores_at = scores_by_threshold(result_of(tmp_path, split, None), split, thresholds)
    for i, threshold in enumerate(thresholds):
        official = evaluate(split, predictions, threshold).scores
        actual = (scores_at["em"][i], scores_at["f1"][i], scores_at["avna"][i])
        assert actual == pytest.approx((official.em, official.f1, official.avna), abs=1e-5)
    assert scores_at["em"][3] == 75


def test_section_has_threshold_rows_and_charts(tmp_path: Path, split: EvaluationSplit) -> None:
    view = calibration_view(
        [result_of(tmp_path, split, -1.5), result_of(tmp_path, split, None)], split
    )
    first, second = view["rows"]
    assert first["at_threshold"] == pytest.approx({"em": 75, "f1": 75, "avna": 75})
    assert second["at_threshold"] is None
    calibration, f1, em, roc = view["charts"]
    # The only unanswerable question has the second-highest margin.
    assert first["auc"] == second["auc"] == pytest.approx(2 / 3)
    assert [line["points"] for line in roc["lines"]] == 2 * [
        [
            (0, 0),
            (pytest.approx(100 / 3), 0),
            (pytest.approx(100 / 3), 100),
            (pytest.approx(200 / 3), 100),
            (100, 100),
        ]
    ]
    assert [chart["title"] for chart in (f1, em)] == ["F1 by threshold", "EM by threshold"]
    assert [guide["variant"] for guide in f1["guides"]] == [None, 0]
    assert dict(em["lines"][0]["points"])[-1.5] == 75
    assert max(y for _, y in em["lines"][0]["points"]) == 75
    (diagonal,) = calibration["guides"]
    assert diagonal["points"] == [(0, 0), (100, 100)]


def test_section_shows_calibration_before_scaling(tmp_path: Path, split: EvaluationSplit) -> None:
    view = calibration_view([result_of(tmp_path, split, None, 4.0)], split)
    (row,) = view["rows"]
    # Three answers of 61 % and no answer of e**1.5; three exact matches of four.
    assert row["ece"] != row["ece_before"] and row["temperature"] == 4
    before, diagonal = view["charts"][0]["guides"]
    assert before["variant"] == 0 and diagonal["variant"] is None
    assert before["points"] != view["charts"][0]["lines"][0]["points"]


def test_page_shows_both_scores_or_the_reason(tmp_path: Path, split: EvaluationSplit) -> None:
    chosen = variant(tmp_path, split, "chosen", SPANS, threshold=-1.25)
    none = variant(tmp_path, split, "none", SPANS, no_threshold="there is no <validation> split")
    page = written_report(tmp_path, [chosen, none])
    Page(page)
    part = page.split("Calibration and no-answer threshold</h2>")[1].split("</section>")[0]
    text = visible_text(part)
    assert "-1.25 25.00 25.00 25.00" in text  # all margins are -1, so nothing is answered
    assert "No threshold: there is no <validation> split" in text
    assert "0.500" in text, "all margins are equal"
    assert part.count('<svg class="chart"') == 4
    for chart in re.findall(r"<svg class=\"chart\".*?</svg>", part, re.DOTALL)[1:3]:
        assert chart.count("stroke-dasharray: 3,3") == 2  # at 0 and at the chosen threshold
        assert "chosen, " in chart and "none, " in chart


def test_threshold_row_states_the_expected_share(tmp_path: Path, split: EvaluationSplit) -> None:
    chosen = variant(tmp_path, split, "chosen", SPANS, threshold=-1.25, expected_no_answer=0.5)
    text = visible_text(written_report(tmp_path, [chosen]))
    assert "-1.25 for 50 % unanswerable" in text


def test_answerable_questions_need_no_threshold(tmp_path: Path) -> None:
    split = load_split(write_split(tmp_path, answered_only=True))
    page = written_report(tmp_path, [variant(tmp_path, split, "one", [(0, 1), (1, 2), (1, 1)])])
    part = page.split("Calibration</h2>")[1].split("</section>")[0]
    assert "hreshold" not in part
    assert "is not defined, because every dev question has an answer" in part
    assert part.count('<svg class="chart"') == 1


def test_model_card_explains_the_threshold() -> None:
    metrics = {"dev/f1": 61.5, "dev/f1_at_threshold": 63.25, "dev/nll": 3.0}
    card = model_card("bidaf-made", {}, {"threshold": "1.5000"}, metrics)
    assert "| F1 | 61.50 | 63.25 |" in card
    assert "| NLL (nats) | 3.00 | – |" in card
    assert "1.5000 nats" in card and 'model_config={"no_answer": "threshold"}' in card
    assert "threshold" not in model_card("bidaf-made", {}, {}, metrics)
