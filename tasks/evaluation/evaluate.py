"""Scores predicted spans on every question of an ingested split, by the official rules."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from infra.errors import UserError
from models.arrays import BoolArray, FloatArray, IntArray
from models.scripts import is_mostly_latin
from models.squad_metrics import QuestionScore, Scores, mean_scores, score_questions
from tasks.evaluation.groups import choose_groups
from tasks.text.tokenizer import tokenize

if TYPE_CHECKING:
    from models.span_decoding import Predictions


# The columns of predictions.parquet, (n,) each, in the split's order.
Columns = dict[str, npt.NDArray[Any]]


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
    golds: list[list[Gold]]  # n; empty for an unanswerable question, and if the answer is invalid
    answerable: BoolArray  # (n,) whether a question has an answer, known or not
    span_start: IntArray  # (n,) first token of the training answer, -1 for none
    span_end: IntArray  # (n,) last token of the training answer, -1 for none
    article_of: IntArray  # (n,) the article of each question

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

    @property
    def group_of(self) -> IntArray:
        """The group of each question, (n,), which comparisons of models draw as a whole."""
        return choose_groups(self.article_of, self.context_of)

    @cached_property
    def has_tokens(self) -> BoolArray:
        """Whether a question and its context both have at least one token, (n,).

        The model cannot answer the other questions, but they count in the scores.
        """
        nonempty = np.array([bool(tokenize(text)) for text in self.questions], dtype=bool)
        return nonempty & (self.context_lengths[self.context_of] > 0)

    @property
    def v2(self) -> bool:
        """Whether the SQuAD 2.0 rule applies, because some question has no answer."""
        return not self.answerable.all()

    @cached_property
    def by_units(self) -> list[bool]:
        """Whether the texts of each question are compared `in_units`, (n,): if its context is
        mostly written in other scripts than Latin, for which the official rules were made."""
        by_units = [not is_mostly_latin(text) for text in self.contexts]
        return [by_units[context] for context in self.context_of]

    def score(self, texts: Sequence[str]) -> list[QuestionScore]:
        """The score of an answer text for each question, "" for no answer.

        They follow the SQuAD 2.0 rule if any question has no answer, else the v1.1 rule. A question
        whose answer is unknown, because all its answers are invalid, has EM and F1 0. For other
        scripts than Latin, see `by_units`.
        """
        answerable = self.answerable.tolist()
        return score_questions(
            texts, self.gold_texts, answerable, v2=self.v2, by_units=self.by_units
        )


@dataclass(frozen=True)
class Evaluation:
    """The answers of one model to all questions of a split, and their scores.

    Lists and arrays have one entry per question, in the split's order.
    """

    scores: Scores
    questions: list[QuestionScore]
    texts: list[str]  # "" if the model gives no answer
    start_chars: IntArray  # -1 if the model gives no answer
    end_chars: IntArray  # one past the last character; -1 if no answer
    log_probabilities: FloatArray  # of the answers given, or of no answer
    predictions: "Predictions"


def load_split(folder: Path) -> EvaluationSplit:
    """Reads contexts.parquet and questions.parquet of an ingested split."""
    contexts: Any = pq.read_table(
        folder / "contexts.parquet", columns=["article", "text", "token_starts", "token_ends"]
    )
    questions: Any = pq.read_table(
        folder / "questions.parquet",
        columns=[
            *("id", "question", "answers", "is_impossible", "context_id"),
            *("span_start", "span_end"),
        ],
    )
    first_token, token_starts = _ragged(contexts, "token_starts")
    _, token_ends = _ragged(contexts, "token_ends")
    context_of = questions["context_id"].to_numpy()
    return EvaluationSplit(
        contexts=contexts["text"].to_pylist(),
        token_starts=token_starts,
        token_ends=token_ends,
        first_token=first_token,
        ids=questions["id"].to_pylist(),
        questions=questions["question"].to_pylist(),
        context_of=context_of,
        golds=[[Gold(**gold) for gold in golds] for golds in questions["answers"].to_pylist()],
        answerable=~questions["is_impossible"].to_numpy(),
        span_start=questions["span_start"].to_numpy(),
        span_end=questions["span_end"].to_numpy(),
        article_of=contexts["article"].to_numpy()[context_of],
    )


def character_spans(
    split: EvaluationSplit, span_start: IntArray, span_end: IntArray
) -> tuple[IntArray, IntArray]:
    """The character span [start, end) of each question's token span, (n,) each.

    `span_start` and `span_end`, (n,) each, are the first and last token (inclusive) in the
    question's context. No answer is -1, -1 in both input and output.

    Raises ValueError if a span ends before it starts or lies outside its context.
    """
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
    span and no answer, at infinity always the span, at -infinity always no answer. See
    `EvaluationSplit.score` for the rules.

    A question without tokens gets no answer, as from the served model.

    Raises UserError if the number of predictions differs from the number of questions, and
    ValueError as `character_spans` does.
    """
    if len(predictions.span_score) != len(split):
        raise UserError(
            f"Got {len(predictions.span_score)} predictions for the {len(split)} questions of the "
            "split. Predict every question, in the order of the split."
        )
    answers = _without_unreadable(predictions, split).answers(threshold)
    starts, ends = character_spans(split, answers.span_start, answers.span_end)
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    texts = [split.context(row)[start:end] for row, (start, end) in enumerate(spans)]
    questions = split.score(texts)
    return Evaluation(
        scores=mean_scores(questions),
        questions=questions,
        texts=texts,
        start_chars=starts,
        end_chars=ends,
        log_probabilities=answers.score,
        predictions=predictions,
    )


def write_predictions(
    out_file: Path,
    split: EvaluationSplit,
    evaluation: Evaluation,
    uncalibrated: Evaluation | None = None,
) -> None:
    """Writes predictions.parquet: one row per question of the split, in its order.

    `span_end_char` is one past the last character; `em` is 0 or 1, and `f1` lies in 0..1. Columns
    that begin with `best_` describe the best span, whether or not it is the answer. Scores are
    log-probabilities; the threshold for no answer applies to `no_answer_score` - `best_score`.
    `no_answer_em` is the exact match of giving no answer, and equals its F1. `uncalibrated_score`
    is the `score` of the answers before temperature scaling, by default the same.
    """
    predictions = evaluation.predictions
    unanswered = evaluate(split, predictions, -math.inf).questions
    columns = {
        "id": pa.array(split.ids, pa.string()),
        "context_id": pa.array(split.context_of, pa.int32()),
        "group": pa.array(split.group_of, pa.int32()),
        **_answer_columns(evaluation),
        "uncalibrated_score": pa.array((uncalibrated or evaluation).log_probabilities),
        "no_answer_probability": pa.array(np.exp(predictions.no_answer_score), pa.float64()),
        "no_answer_score": pa.array(predictions.no_answer_score, pa.float64()),
        "no_answer_em": pa.array([question.em for question in unanswered], pa.float32()),
        **_answer_columns(evaluate(split, predictions, math.inf), "best_"),
    }
    pq.write_table(pa.table(columns), out_file, compression="zstd")


def read_groups(file: Path) -> IntArray:
    """The group of each question in a predictions.parquet, (n,)."""
    groups: IntArray = pq.read_table(file, columns=["group"])["group"].to_numpy()
    return groups


def read_predictions(file: Path, split: EvaluationSplit, name: str) -> Columns:
    """The columns of a predictions.parquet; error messages call its run `name`.

    Raises:
        UserError: the ids differ from those of the split's questions, or their order does.
    """
    table = pq.read_table(file)
    if table["id"].to_pylist() != split.ids:
        raise UserError(
            f"{file}: the ids of the {table.num_rows} predictions do not match the {len(split)} "
            f"questions of the evaluation split. Evaluate {name!r} again."
        )
    return {column: table[column].to_numpy() for column in table.column_names}


def mean(scores: FloatArray) -> float:
    """The mean of scores (0..1), (n,), as a percentage."""
    return 100 * float(scores.mean())


def _answer_columns(evaluation: Evaluation, prefix: str = "") -> "dict[str, pa.Array[Any]]":
    return {
        f"{prefix}prediction": pa.array(evaluation.texts, pa.string()),
        f"{prefix}span_start_char": pa.array(evaluation.start_chars, pa.int32()),
        f"{prefix}span_end_char": pa.array(evaluation.end_chars, pa.int32()),
        f"{prefix}score": pa.array(evaluation.log_probabilities, pa.float64()),
        f"{prefix}em": pa.array([question.em for question in evaluation.questions], pa.float32()),
        f"{prefix}f1": pa.array([question.f1 for question in evaluation.questions], pa.float32()),
    }


def _without_unreadable(predictions: "Predictions", split: EvaluationSplit) -> "Predictions":
    """The predictions, without spans for the questions that the served model refuses to read."""
    return replace(
        predictions,
        span_start=np.where(split.has_tokens, predictions.span_start, -1),
        span_end=np.where(split.has_tokens, predictions.span_end, -1),
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


def _ragged(table: pa.Table, column: str) -> tuple[IntArray, IntArray]:
    """Where each row's values begin, (rows + 1,), and the values of all rows, concatenated."""
    lists: Any = table[column].combine_chunks()
    return lists.offsets.to_numpy() - lists.offsets[0].as_py(), lists.flatten().to_numpy()
