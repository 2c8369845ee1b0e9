"""Scores predicted spans on every question of an ingested split, by the official rules."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from infra.errors import UserError
from models.arrays import IntArray
from models.squad_metrics import QuestionScore, Scores, mean_scores, score_questions
from tasks.text.tokenizer import tokenize

if TYPE_CHECKING:
    from models.span_decoding import Predictions


_OFFSETS = ["token_starts", "token_ends"]
_POSITIONS = ["context_id", "span_start", "span_end"]
_QUESTION_COLUMNS = ["id", "question", "answers", *_POSITIONS]


@dataclass(frozen=True)
class Gold:
    """An annotator's answer: its text, and the index of its first character in the context."""

    text: str
    start: int


@dataclass(frozen=True)
class EvaluationSplit:
    """A split for evaluation and reports: n questions about c contexts with t tokens in total."""

    contexts: list[str]  # c
    token_starts: IntArray  # (t,) first character of each token, within its own context
    token_ends: IntArray  # (t,) one past its last character
    first_token: IntArray  # (c + 1,) where each context's tokens begin in the two arrays above
    ids: list[str]  # n
    questions: list[str]  # n
    context_of: IntArray  # (n,)
    golds: list[list[Gold]]  # n; an empty list for an unanswerable question
    span_start: IntArray  # (n,) first token of the training answer, -1 for none
    span_end: IntArray  # (n,) last token of the training answer, -1 for none

    def __len__(self) -> int:
        return len(self.ids)

    def context(self, row: int) -> str:
        """The context of the question in a row."""
        return self.contexts[int(self.context_of[row])]

    @property
    def context_lengths(self) -> IntArray:
        """The number of tokens in each context, (c,)."""
        return np.diff(self.first_token)

    @cached_property
    def gold_texts(self) -> list[list[str]]:
        """The gold answer texts of each question, for scoring."""
        return [[gold.text for gold in golds] for golds in self.golds]

    @cached_property
    def has_tokens(self) -> npt.NDArray[np.bool_]:
        """Whether a question and its context both have at least one token, (n,).

        The model cannot answer the other questions, but they count in the scores.
        """
        nonempty = np.array([bool(tokenize(text)) for text in self.questions], dtype=bool)
        return nonempty & (self.context_lengths[self.context_of] > 0)

    @property
    def v2(self) -> bool:
        """Whether the SQuAD 2.0 rule applies, because some question has no answer."""
        return not all(self.golds)


@dataclass(frozen=True)
class Evaluation:
    """The answers of one model to all questions of a split, and their scores.

    Lists and arrays have one entry per question, in the split's order.
    """

    scores: Scores
    has_answer: Scores | None  # of the answerable questions; None unless the split has both kinds
    no_answer: Scores | None  # of the unanswerable ones; None unless the split has both kinds
    questions: list[QuestionScore]
    texts: list[str]  # "" if the model gives no answer
    start_chars: IntArray  # -1 if the model gives no answer
    end_chars: IntArray  # one past the last character; -1 if no answer
    log_probabilities: npt.NDArray[np.floating]  # of the answers given, or of no answer
    predictions: "Predictions"


def load_split(folder: Path) -> EvaluationSplit:
    """Reads contexts.parquet and questions.parquet of an ingested split."""
    contexts = pq.read_table(folder / "contexts.parquet", columns=["text", *_OFFSETS])
    questions = pq.read_table(folder / "questions.parquet", columns=_QUESTION_COLUMNS)
    first_token, token_starts = _ragged(contexts, "token_starts")
    _, token_ends = _ragged(contexts, "token_ends")
    context_of, span_start, span_end = (_numbers(questions, name) for name in _POSITIONS)
    return EvaluationSplit(
        contexts=_values(contexts, "text"),
        token_starts=token_starts,
        token_ends=token_ends,
        first_token=first_token,
        ids=_values(questions, "id"),
        questions=_values(questions, "question"),
        context_of=context_of,
        golds=[[Gold(**gold) for gold in golds] for golds in _values(questions, "answers")],
        span_start=span_start,
        span_end=span_end,
    )


def character_spans(
    split: EvaluationSplit, span_start: IntArray, span_end: IntArray
) -> tuple[IntArray, IntArray]:
    """The character span [start, end) of each question's token span, (n,) each.

    `span_start` and `span_end`, (n,) each, are the first and last token (inclusive) in the
    question's context. No answer is -1, -1 in both input and output.

    Raises UserError if the number of spans differs from the number of questions, and ValueError if
    a span ends before it starts or lies outside its context.
    """
    _check_count(len(span_start), split)
    _check_count(len(span_end), split)
    _check_spans(split, span_start, span_end)
    has_span = span_start >= 0
    base = split.first_token[split.context_of[has_span]]
    spans = np.full((2, len(split)), -1)
    spans[0, has_span] = split.token_starts[base + span_start[has_span]]
    spans[1, has_span] = split.token_ends[base + span_end[has_span]]
    return spans[0], spans[1]


def evaluate(
    split: EvaluationSplit, predictions: "Predictions", threshold: float = 0.0
) -> Evaluation:
    """Scores one answer for every question of the split.

    The answers are those at `threshold` (see `Predictions.answers`): at 0 the more probable of
    span and no answer, at infinity always the span. The SQuAD 2.0 rule applies if any question of
    the split has no answer, else the v1.1 rule.

    Raises UserError or ValueError as `character_spans` does.
    """
    _check_count(len(predictions.span_score), split)
    _check_count(len(predictions.no_answer_score), split)
    answers = predictions.answers(threshold)
    starts, ends = character_spans(split, answers.span_start, answers.span_end)
    texts = _span_texts(split, starts, ends)
    questions = score_questions(texts, split.gold_texts, v2=split.v2)
    has_answer, no_answer = _scores_by_answerability(questions, split)
    return Evaluation(
        scores=mean_scores(questions),
        has_answer=has_answer,
        no_answer=no_answer,
        questions=questions,
        texts=texts,
        start_chars=starts,
        end_chars=ends,
        log_probabilities=answers.score,
        predictions=predictions,
    )


def write_predictions(out_file: Path, split: EvaluationSplit, evaluation: Evaluation) -> None:
    """Writes predictions.parquet: one row per question of the split, in its order.

    `span_end_char` is one past the last character; `em` is 0 or 1, and `f1` lies in 0..1. Columns
    that begin with `best_` describe the best span, whether or not it is the answer. Scores are
    log-probabilities; the threshold for no answer applies to `no_answer_score` - `best_score`.
    `no_answer_em` is the exact match of giving no answer, and equals its F1.

    Raises UserError if the number of answers differs from the number of questions.
    """
    _check_count(len(evaluation.questions), split)
    predictions = evaluation.predictions
    unanswered = score_questions([""] * len(split), split.gold_texts, v2=split.v2)
    columns = {
        "id": pa.array(split.ids, pa.string()),
        **_answer_columns(evaluation),
        "no_answer_probability": pa.array(np.exp(predictions.no_answer_score), pa.float64()),
        "no_answer_score": pa.array(predictions.no_answer_score, pa.float64()),
        "no_answer_em": pa.array([question.em for question in unanswered], pa.float32()),
        **_answer_columns(evaluate(split, predictions, math.inf), "best_"),
    }
    pq.write_table(pa.table(columns), out_file, compression="zstd")


def _answer_columns(evaluation: Evaluation, prefix: str = "") -> "dict[str, pa.Array[Any]]":
    questions = evaluation.questions
    columns: dict[str, pa.Array[Any]] = {
        "prediction": pa.array(evaluation.texts, pa.string()),
        "span_start_char": pa.array(evaluation.start_chars, pa.int32()),
        "span_end_char": pa.array(evaluation.end_chars, pa.int32()),
        "score": pa.array(evaluation.log_probabilities, pa.float64()),
        "em": pa.array([question.em for question in questions], pa.float32()),
        "f1": pa.array([question.f1 for question in questions], pa.float32()),
    }
    return {f"{prefix}{name}": column for name, column in columns.items()}


def _check_count(count: int, split: EvaluationSplit) -> None:
    if count != len(split):
        raise UserError(
            f"Got {count} predictions for the {len(split)} questions of the split. Predict every "
            "question, in the order of the split."
        )


def _check_spans(split: EvaluationSplit, span_start: IntArray, span_end: IntArray) -> None:
    lengths = split.context_lengths[split.context_of]
    none = (span_start == -1) & (span_end == -1)
    inside = (span_start >= 0) & (span_start <= span_end) & (span_end < lengths)
    invalid = np.flatnonzero(~(none | inside))
    if len(invalid):
        row = invalid[0]
        raise ValueError(
            f"Invalid answer span for question {split.ids[row]!r}: tokens {span_start[row]} to "
            f"{span_end[row]}, but its context has {lengths[row]} tokens."
        )


def _scores_by_answerability(
    questions: Sequence[QuestionScore], split: EvaluationSplit
) -> tuple[Scores, Scores] | tuple[None, None]:
    parts: dict[bool, list[QuestionScore]] = {True: [], False: []}
    for question, golds in zip(questions, split.golds, strict=True):
        parts[bool(golds)].append(question)
    if not all(parts.values()):
        return None, None
    return mean_scores(parts[True]), mean_scores(parts[False])


def _span_texts(split: EvaluationSplit, starts: IntArray, ends: IntArray) -> list[str]:
    spans = zip(split.context_of.tolist(), starts.tolist(), ends.tolist(), strict=True)
    return [split.contexts[c][start:end] if start >= 0 else "" for c, start, end in spans]


def _values(table: pa.Table, column: str) -> list[Any]:
    return table[column].to_pylist()


def _numbers(table: pa.Table, column: str) -> IntArray:
    numbers: IntArray = table[column].to_numpy()
    return numbers


def _ragged(table: pa.Table, column: str) -> tuple[IntArray, IntArray]:
    """Where each row's values begin, (rows + 1,), and the values of all rows, concatenated."""
    lists: Any = table[column].combine_chunks()
    return lists.offsets.to_numpy() - lists.offsets[0].as_py(), lists.flatten().to_numpy()
