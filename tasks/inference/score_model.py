"""Evaluates a registered model on every question of a split, whatever data it was trained on."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from infra.errors import UserError
from infra.run_logger import logger
from models.arrays import FloatArray
from models.squad_metrics import QuestionScore, mean_scores
from tasks.evaluation.evaluate import EvaluationSplit, load_split
from tasks.inference.no_answer import NoAnswer
from tasks.text.tokenizer import tokenize
from tasks.tracking import registry

if TYPE_CHECKING:
    from tasks.inference.predictor import Predictor

# The predictor is imported locally, because it loads torch, which takes seconds.

ANSWERS = "answers.parquet"


def score_registered(
    out: Path,
    model_id: str,
    split: Path,
    no_answer: NoAnswer = "argmax",
    expected_no_answer: float | None = None,
) -> dict[str, Any]:
    """Evaluate a registered model on all questions of an ingested split, from their raw text.

    For the last two arguments, see `Predictor.load`. Writes answers.parquet with a row per
    question, and model/ without its weights and vectors. The facts have the scores, and as `unread`
    the number of questions whose texts are too long for the model.

    Raises:
        UserError: the model is incompatible with this version of the code, or has no such
            threshold.
    """
    folder = out / "model"
    registry.download(model_id, folder)
    predictor = load_predictor(folder, model_id, no_answer, expected_no_answer)
    questions = load_split(split)
    answers, scores, unread = answer_split(predictor, questions)
    columns: dict[str, Any] = {
        "id": questions.ids,
        "answer": answers,
        "em": np.array([score.em for score in scores], dtype=np.float32),
        "f1": np.array([score.f1 for score in scores], dtype=np.float32),
        "avna": np.array([score.avna for score in scores], dtype=np.float32),
    }
    pq.write_table(pa.table(columns), out / ANSWERS, compression="zstd")
    for file in folder.rglob("*.safetensors"):
        file.unlink()  # large, and kept in the registry
    mean = mean_scores(scores)
    facts = {"model_id": model_id, "em": mean.em, "f1": mean.f1, "questions": len(scores)}
    return {**facts, "unread": unread}


def load_predictor(
    folder: Path, name: str, no_answer: NoAnswer, expected_no_answer: float | None
) -> "Predictor":
    """The model of a folder, which messages call `name`; for the others see `Predictor.load`.

    Raises:
        UserError: the model is incompatible with this version of the code, or has no such
            threshold.
    """
    from tasks.inference.ensemble import load_model
    from tasks.inference.predictor import INCOMPATIBLE

    try:
        return load_model(folder, no_answer, expected_no_answer)
    except INCOMPATIBLE as error:
        raise UserError(
            f"The model {name} is incompatible with this version of the code ({error}). Choose "
            "another version. If it is the champion, set the alias `champion` to another version, "
            "or delete the alias."
        ) from error


def answer_split(
    predictor: "Predictor", split: EvaluationSplit
) -> tuple[list[str], list[QuestionScore], int]:
    """Answers to all questions of a split, their scores by the official rules, and the number of
    questions that the model can't read because the texts are too long.

    The answer is "" if the question or the context has no tokens. It is also "" if they are too
    long, but then the scores are 0, because "no answer" would be right for unanswerable questions.
    """
    contexts = map(split.context, range(len(split)))
    pairs = list(zip(split.questions, contexts, strict=True))
    rows = predictor.answer(pairs)
    answers = [row["answer"] for row in rows]
    unread = [
        bool(row["error"]) and all(tokenize(text) for text in pair)
        for row, pair in zip(rows, pairs, strict=True)
    ]
    scores = [
        QuestionScore(0, 0.0, 0) if too_long else score
        for too_long, score in zip(unread, split.score(answers), strict=True)
    ]
    return answers, scores, sum(unread)


def warn_of_unread(name: str, facts: Mapping[str, Any]) -> None:
    """Log a warning if there are questions that a scored model could not read."""
    if facts["unread"]:
        logger().warning(
            f"{name} can't read {facts['unread']:,} of the {facts['questions']:,} questions, "
            "because their texts are too long for it. They count as wrong."
        )


def load_f1(scored: Path) -> FloatArray:
    """(n,) F1 (0 to 1) of each answer of a scored model, in the split's order."""
    f1: FloatArray = pq.read_table(scored / ANSWERS, columns=["f1"])["f1"].to_numpy()
    return f1
