"""Predicted spans against the answers of every question of an ingested split."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from models.decoding import Predictions
from models.metrics import QuestionScore, Scores, mean_scores, score_questions

Spans = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EvaluationSplit:
    """The questions of a split with all that scoring needs, in the order of questions.parquet."""

    ids: list[str]
    questions: list[str]
    contexts: list[str]  # one a context
    token_starts: list[list[int]]  # one a context: characters
    token_ends: list[list[int]]
    context_of: list[int]
    golds: list[list[str]]  # none: the question has no answer

    @property
    def v2(self) -> bool:
        """Whether the v2.0 rule applies: some question has no answer."""
        return not all(self.golds)


@dataclass(frozen=True)
class Evaluation:
    """The answers that were given, and their scores by the official rules."""

    texts: list[str]
    characters: list[tuple[int, int]]  # [start, end) in the context; -1, -1 for no answer
    predictions: Predictions
    questions: list[QuestionScore]

    @property
    def scores(self) -> Scores:
        """Means over every question of the split."""
        return mean_scores(self.questions)


def load_split(folder: Path) -> EvaluationSplit:
    """Read an ingested split."""
    contexts = pq.read_table(
        folder / "contexts.parquet", columns=["text", "token_starts", "token_ends"]
    ).to_pydict()
    questions = pq.read_table(
        folder / "questions.parquet", columns=["id", "question", "context_id", "answers"]
    ).to_pydict()
    return EvaluationSplit(
        ids=questions["id"],
        questions=questions["question"],
        contexts=contexts["text"],
        token_starts=contexts["token_starts"],
        token_ends=contexts["token_ends"],
        context_of=questions["context_id"],
        golds=[[answer["text"] for answer in answers] for answers in questions["answers"]],
    )


def character_spans(split: EvaluationSplit, start: Spans, end: Spans) -> list[tuple[int, int]]:
    """Token spans, inclusive, -1 for none -> characters [start, end) of each question's context."""
    return [
        (-1, -1) if first < 0 else (split.token_starts[c][first], split.token_ends[c][last])
        for c, first, last in zip(split.context_of, start, end, strict=True)
    ]


def span_texts(split: EvaluationSplit, characters: Sequence[tuple[int, int]]) -> list[str]:
    """The text of each question's span, cut from its context as it stands there."""
    return [
        split.contexts[c][start:end] if start >= 0 else ""
        for c, (start, end) in zip(split.context_of, characters, strict=True)
    ]


def evaluate(split: EvaluationSplit, predictions: Predictions) -> Evaluation:
    """Score one answer for each question.

    Raises:
        ValueError: there are more or fewer predictions than questions; nothing may be left out.
    """
    if len(predictions.span_start) != len(split.ids):
        raise ValueError(
            f"{len(predictions.span_start)} predictions for {len(split.ids)} questions"
        )
    characters = character_spans(split, predictions.span_start, predictions.span_end)
    texts = span_texts(split, characters)
    scored = score_questions(texts, split.golds, v2=split.v2)
    return Evaluation(texts, characters, predictions, scored)


def write_predictions(file: Path, split: EvaluationSplit, evaluation: Evaluation) -> None:
    """Write predictions.parquet: a row a question, with the answer given and its scores."""
    rows: dict[str, Any] = {
        "id": split.ids,
        "prediction": evaluation.texts,
        "start": pa.array([start for start, _ in evaluation.characters], pa.int32()),
        "end": pa.array([end for _, end in evaluation.characters], pa.int32()),
        "score": evaluation.predictions.score,
        "no_answer_probability": evaluation.predictions.no_answer_probability,
        "em": pa.array([question.em for question in evaluation.questions], pa.float32()),
        "f1": pa.array([question.f1 for question in evaluation.questions], pa.float32()),
    }
    pq.write_table(pa.table(rows), file, compression="zstd")
