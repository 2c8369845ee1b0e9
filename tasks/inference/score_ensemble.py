"""The answers of an ensemble to the questions of a split, and the temperature that suits them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from infra.reporting.progress_reporter import ProgressReporter
from models.arrays import FloatArray
from models.modules.layers import MASKED
from models.span_decoding import Predictions, ranked_spans, target_scores
from tasks.evaluation.evaluate import EvaluationSplit
from tasks.inference.ensemble import Ensemble, total_at

REPORTED_QUESTIONS = 64  # between two reports of progress


@dataclass(frozen=True)
class ScoredSplit:
    """What an ensemble makes of n questions, and what changes at k temperatures."""

    predictions: Predictions  # at temperature 1
    targets: FloatArray  # (n,) log-probability of the target at temperature 1; NaN without one
    temperatures: FloatArray  # (k,)
    totals: FloatArray  # (n, k) logarithm of the sum of all probabilities, each to the power 1/T

    @property
    def best(self) -> float:
        """The temperature that gives the targets the highest likelihood (Guo et al., 2017, section
        4.2); 1 if there are no targets."""
        rows = np.isfinite(self.targets)
        likelihoods = (self.targets[rows, None] / self.temperatures - self.totals[rows]).sum(0)
        return float(self.temperatures[likelihoods.argmax()]) if rows.any() else 1.0

    def at(self, temperature: float) -> Predictions:
        """The predictions with the probabilities at one of the temperatures."""
        totals = self.totals[:, list(self.temperatures).index(temperature)]
        return replace(
            self.predictions,
            span_score=self.predictions.span_score / temperature - totals,
            no_answer_score=self.predictions.no_answer_score / temperature - totals,
        )


def score_split(
    ensemble: Ensemble, split: EvaluationSplit, temperatures: Sequence[float]
) -> ScoredSplit:
    """Answer all questions of a split. Those without tokens get no span, and no target."""
    spans = np.full((2, len(split)), -1)
    scores = np.zeros((3, len(split)))  # of the best span, of no answer, and of the target
    scores[0], scores[2] = MASKED, np.nan
    totals = np.zeros((len(split), len(temperatures)))
    rows = np.flatnonzero(split.has_tokens).tolist()
    pairs = [(split.questions[row], split.context(row)) for row in rows]
    found = ensemble.mean_scores(pairs)
    with ProgressReporter("answering", len(rows), "questions") as reporter:
        for done, (row, (own, none)) in enumerate(zip(rows, found, strict=True), 1):
            best = ranked_spans(own, none, 1)
            spans[:, row] = best.span_start[0], best.span_end[0]
            target = target_scores(own.unsqueeze(0), none.unsqueeze(0), *_target(split, row))
            scores[:, row] = best.span_score[0], best.no_answer_score[0], target.item()
            totals[row] = [total_at(own, none, t).item() for t in temperatures]
            if done % REPORTED_QUESTIONS == 0 or done == len(rows):
                reporter.report(done)
    return ScoredSplit(Predictions(*spans, *scores[:2]), scores[2], np.array(temperatures), totals)


def _target(split: EvaluationSplit, row: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The positions of a question's training answer as in `target_scores`, (1,) each."""
    if not split.answerable[row]:
        return torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)
    first, last = int(split.span_start[row]), int(split.span_end[row])
    # Position 0 is the null token; -1 stays -1.
    return torch.tensor([first + 1 or -1]), torch.tensor([last + 1 or -1])
