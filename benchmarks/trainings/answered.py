"""Answers of a training that were read from a file, scored at any no-answer threshold."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.trainings.answers import read_facts
from benchmarks.trainings.trained import Training
from models.arrays import BoolArray, FloatArray, IntArray
from tasks.data.negatives import negative_kind
from tasks.evaluation.metrics import kind_weights, no_answer_auc, threshold_of_best_score

SCORES = (
    *("margin", "span_em", "span_f1", "no_answer_em", "has_span", "answerable", "within"),
    "article",
)


@dataclass(frozen=True)
class Scores:
    """EM, F1 and AvNA (percent) of each question, (n,) each, at a threshold."""

    em: FloatArray
    f1: FloatArray
    avna: FloatArray


@dataclass(frozen=True)
class Answered:
    """A training's answers to the questions of a split, (n,) each."""

    facts: dict[str, Any]
    ids: list[str]
    margin: FloatArray  # log-probability of no answer minus that of the best span, nats
    span_em: FloatArray  # of the best span, 0 or 1
    span_f1: FloatArray  # of the best span, 0 to 1
    no_answer_em: FloatArray  # of no answer, 0 or 1; its F1 is the same
    has_span: BoolArray  # whether there is a best span; empty texts have none
    answerable: BoolArray
    within: BoolArray  # whether the context is within the token limit of training
    article: IntArray  # the number of the article

    @property
    def training(self) -> Training:
        """The training that they come from."""
        return Training.from_facts(self.facts)

    @property
    def summary(self) -> dict[str, Any]:
        """The configuration, commit, date and kept epoch of the training, for files of results."""
        return {name: self.facts[name] for name in ("config", "inputs", "git", "date", "kept")}

    @property
    def auc(self) -> float | None:
        """The area under the ROC curve of the no-answer score; None for questions of one kind."""
        return no_answer_auc(self.margin, self.answerable)

    def at(self, threshold: float) -> Scores:
        """The scores of the answers at a threshold."""
        none = self.margin >= threshold
        return Scores(
            em=100.0 * np.where(none, self.no_answer_em, self.span_em),
            f1=100.0 * np.where(none, self.no_answer_em, self.span_f1),
            avna=100.0 * ((self.has_span & ~none) == self.answerable),
        )

    def weights(self, expected_no_answer: float) -> FloatArray:
        """Weights of the questions with mean 1, (n,), of which the unanswerable ones have the
        expected share; equal weights if all questions are answerable."""
        if self.answerable.all():
            return np.ones(len(self.ids))
        return kind_weights(self.answerable, expected_no_answer)

    def threshold(self, expected_no_answer: float) -> float:
        """The threshold with the best F1, if the expected share of questions were unanswerable;
        infinity (a span for each question) if none of them is."""
        if self.answerable.all():
            return math.inf
        if not self.answerable.any():
            sys.exit("The questions are all unanswerable, so no threshold can be chosen.")
        return self._best_threshold(self.weights(expected_no_answer))

    @property
    def oracle_f1(self) -> float:
        """F1 (percent) at the threshold that is best for these questions themselves."""
        return float(self.at(self._best_threshold(np.ones(len(self.ids)))).f1.mean())

    def _best_threshold(self, weights: FloatArray) -> float:
        scores = (weights * score for score in (self.span_f1, self.no_answer_em))
        return threshold_of_best_score(self.margin, *scores)

    def take(self, rows: BoolArray | IntArray) -> "Answered":
        """The answers in the rows of a mask (n,), or of indices (k,)."""
        ids = np.array(self.ids, object)[rows].tolist()
        return Answered(self.facts, ids, **{name: getattr(self, name)[rows] for name in SCORES})

    def of(self, ids: Sequence[str]) -> "Answered":
        """The answers to the questions with these ids, in this order."""
        row_of = {id: row for row, id in enumerate(self.ids)}
        return self.take(np.array([row_of[id] for id in ids], dtype=np.int64))

    def without_negatives(self) -> "Answered":
        """The answers to the questions that people wrote."""
        return self.take(np.array([negative_kind(id) is None for id in self.ids], bool))


def read_answers(file: Path) -> Answered:
    """Read a file that `benchmarks.trainings.answers` wrote for a training."""
    facts = read_facts(file)
    table: Any = pq.read_table(file)
    missing = {*SCORES, "id"} - {"has_span", *table.column_names}
    if missing:
        sys.exit(f"{file} lacks {', '.join(sorted(missing))}. Give answers of a finished training.")
    columns = {name: table[name].to_numpy() for name in SCORES if name != "has_span"}
    columns["has_span"] = table["span_start_char"].to_numpy() >= 0
    return Answered(facts, table["id"].to_pylist(), **columns)
