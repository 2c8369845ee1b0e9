"""The predictions of an ensemble for the questions of a split."""

from collections.abc import Sequence

import numpy as np

from infra.reporting.progress_reporter import ProgressReporter
from models.modules.layers import MASKED
from models.span_decoding import Predictions, TemperedPredictions, ranked_spans, total_at
from tasks.evaluation.evaluate import EvaluationSplit
from tasks.inference.ensemble import Ensemble

REPORTED_QUESTIONS = 64  # between two reports of progress


def score_split(
    ensemble: Ensemble, split: EvaluationSplit, temperatures: Sequence[float]
) -> TemperedPredictions:
    """Answer all questions of a split. Those without tokens get no span."""
    spans = np.full((2, len(split)), -1)
    scores = np.zeros((2, len(split)))
    scores[0] = MASKED
    totals = np.zeros((len(split), len(temperatures)))
    rows = np.flatnonzero(split.has_tokens).tolist()
    found = ensemble.mean_scores([(split.questions[row], split.context(row)) for row in rows])
    with ProgressReporter("answering", len(rows), "questions") as reporter:
        for done, (row, (own, none)) in enumerate(zip(rows, found, strict=True), 1):
            best = ranked_spans(own, none, 1)
            spans[:, row] = best.span_start[0], best.span_end[0]
            scores[:, row] = best.span_score[0], best.no_answer_score[0]
            totals[row] = [total_at(own[None], none[None], t).item() for t in temperatures]
            if done % REPORTED_QUESTIONS == 0 or done == len(rows):
                reporter.report(done)
    return TemperedPredictions(Predictions(*spans, *scores), tuple(temperatures), totals)
