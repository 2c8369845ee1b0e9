"""A finished training's answers to the questions of dev, scored at any no-answer threshold."""

import json
import sys
from dataclasses import dataclass

import numpy as np

from benchmarks.trainings.trained import Trained
from models.arrays import BoolArray, FloatArray, IntArray
from tasks.evaluation.evaluate import load_split, read_predictions
from tasks.evaluation.metrics import no_answer_auc, threshold_of_best_score
from tasks.evaluation.operating_points import OperatingPoint, threshold_for

COLUMNS = (
    *("margin", "span_em", "span_f1", "no_answer_em", "has_span", "answerable", "within"),
    "article",
)


@dataclass(frozen=True)
class Scores:
    """EM, F1 and AvNA (percent) of each question, (n,) each, at a threshold."""

    em: FloatArray
    f1: FloatArray
    avna: FloatArray

    @property
    def means(self) -> FloatArray:
        """The means over the questions, (3,)."""
        return np.array([self.em.mean(), self.f1.mean(), self.avna.mean()])


@dataclass(frozen=True)
class Answered:
    """A training's answers to the questions of dev, (n,) each."""

    threshold: float  # the no-answer threshold that validation chose
    margin: FloatArray  # log-probability of no answer minus that of the best span, nats
    span_em: FloatArray  # of the best span, 0 or 1
    span_f1: FloatArray  # of the best span, 0 to 1
    no_answer_em: FloatArray  # of no answer, 0 or 1; its F1 is the same
    has_span: BoolArray  # whether there is a best span; empty texts have none
    answerable: BoolArray
    within: BoolArray  # whether the context is within the token limit of training
    article: IntArray  # the number of the article

    @property
    def auc(self) -> float | None:
        """The area under the ROC curve of the no-answer score; None for questions of one kind."""
        return no_answer_auc(self.margin, self.answerable)

    @property
    def scores(self) -> Scores:
        """The scores of the answers at the threshold that validation chose."""
        return self.at(self.threshold)

    def at(self, threshold: float) -> Scores:
        """The scores of the answers at a threshold."""
        none = self.margin >= threshold
        return Scores(
            em=100.0 * np.where(none, self.no_answer_em, self.span_em),
            f1=100.0 * np.where(none, self.no_answer_em, self.span_f1),
            avna=100.0 * ((self.has_span & ~none) == self.answerable),
        )

    @property
    def oracle_f1(self) -> float:
        """F1 (percent) at the threshold that is best for these questions themselves."""
        best = threshold_of_best_score(self.margin, self.span_f1, self.no_answer_em)
        return float(self.at(best).f1.mean())

    def take(self, rows: BoolArray) -> "Answered":
        """The answers in the rows of a mask (n,)."""
        columns = {name: getattr(self, name)[rows] for name in COLUMNS}
        return Answered(self.threshold, **columns)


def answers_of(trained: Trained, expected_no_answer: float) -> Answered:
    """A training's answers, with the threshold for an expected share of unanswerable questions."""
    threshold = threshold_of(trained, expected_no_answer)
    split = load_split(trained.input("dev", "ingested"))
    columns = read_predictions(trained.folder / "predictions.parquet", split, trained.folder.name)
    limit = trained.variant.training.max_context_tokens
    return Answered(
        threshold,
        margin=columns["no_answer_score"] - columns["best_score"],
        span_em=columns["best_em"],
        span_f1=columns["best_f1"],
        no_answer_em=columns["no_answer_em"],
        has_span=columns["best_span_start_char"] >= 0,
        answerable=split.answerable,
        within=split.context_lengths[split.context_of] <= limit,
        article=split.article_of,
    )


def threshold_of(trained: Trained, expected_no_answer: float) -> float:
    """The no-answer threshold of the trained model for a share of unanswerable questions. The
    program ends if validation could choose none."""
    config = json.loads((trained.folder / "model" / "config.json").read_text(encoding="utf-8"))
    points = [OperatingPoint(*point) for point in config["operating_points"]]
    if not points:
        sys.exit(
            f"{trained.folder}: the model has no no-answer threshold, because its training or "
            "validation split lacks answerable or unanswerable questions. Give trainings on SQuAD "
            "2.0."
        )
    return threshold_for(points, expected_no_answer)
