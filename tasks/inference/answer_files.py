"""Answers the questions of files, each from all of its contexts.

Parts that are answered are kept until all are, so a run that was killed goes on with the next part.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from infra.cluster.map_reduce import map_on_cluster
from infra.errors import UserError
from infra.reporting.progress_reporter import ProgressReporter
from infra.storage.store import checkpoint_storage
from tasks.data.readers import Reading, read_articles
from tasks.inference.no_answer import NoAnswer
from tasks.inference.score_model import ANSWERS, load_predictor
from tasks.inference.several_contexts import best_over_contexts

if TYPE_CHECKING:
    from tasks.inference.predictor import Predictor

# Questions that are answered together. A run that is killed loses those of one part, or of two for
# each CPU of a cluster.
PART_QUESTIONS = 512

_SPAN: dict[str, Any] = {
    **dict.fromkeys(("answer", "context", "title"), pa.string()),
    **dict.fromkeys(("start", "end"), pa.int32()),
    "probability": pa.float64(),
}
SCHEMA = pa.schema(
    {
        **dict.fromkeys(("id", "question"), pa.string()),
        **_SPAN,
        "no_answer_probability": pa.float64(),
        "alternatives": pa.list_(pa.struct(_SPAN)),
        **dict.fromkeys(("model", "version", "error"), pa.string()),
    }
)


class AskedQuestion(NamedTuple):
    """A question of some files, with the contexts to answer it from, and their titles."""

    id: str
    question: str
    titles: dict[str, str]  # by context
    error: str  # why the question is invalid; "" if it is valid


def read_questions(files: Sequence[Path], columns: str = "") -> list[AskedQuestion]:
    """The questions of files, in order, each once. Answers are not read, and may be missing.

    Questions with the same id and text are one question with several contexts. `columns` names
    those of tables (see `parse_columns`).

    Raises:
        UserError: as `read_articles` does, or there are no questions.
    """
    asked: dict[tuple[str, str], AskedQuestion] = {}
    for file in files:
        for article in read_articles(file, Reading(columns, keep_all=True)):
            for context, item in article.questions():
                # One of which only the answers are invalid can be answered.
                error = "" if item.question else getattr(item, "reason", "")
                new = AskedQuestion(item.id, item.question, {}, error)
                titles = asked.setdefault((item.id, item.question), new).titles
                titles.setdefault(context, article.title)
    if not asked:
        raise UserError(f"No questions found in {files[0]}. Add at least one question.")
    return list(asked.values())


def answer_files(
    out: Path,
    files: Sequence[Path],
    model: Path,
    name: str,
    version: str,
    top: int = 1,
    no_answer: NoAnswer = "argmax",
    expected_no_answer: float | None = None,
    columns: str = "",
) -> dict[str, Any]:
    """Answer the questions of files, on all nodes of the cluster if there is one, and write
    answers.parquet: a row for each question, in order.

    `model` is the folder of the stage `fetch-model`; `name` and `version` of the model are written
    into each row. `top` is the number of answers to a question: the likeliest, and its
    alternatives. For `no_answer` and `expected_no_answer` see `Predictor.load`, for `columns`
    `read_questions`. A question that can't be answered has the reason as its `error`.

    Raises:
        UserError: as `read_questions` does, or the model is incompatible with this version of the
            code, or it has no such threshold.
    """
    questions = read_questions(files, columns)
    predictor = load_predictor(model / "model", name, no_answer, expected_no_answer)
    parts = [questions[i : i + PART_QUESTIONS] for i in range(0, len(questions), PART_QUESTIONS)]
    storage = checkpoint_storage()
    places = [storage.path(out.name, f"{number:06}.parquet") for number in range(len(parts))]
    # They are written in order, so those that a killed run has left are the first ones.
    done = sum(info.is_file for info in storage.files.get_file_info(places))
    answer = partial(_answer_part, predictor, top, {"model": name, "version": version})
    with ProgressReporter(
        "answering", len(questions), "questions", done * PART_QUESTIONS
    ) as reporter:
        for number, table in enumerate(map_on_cluster(answer, parts[done:]), done):
            pq.write_table(table, places[number], filesystem=storage.files, compression="zstd")
            reporter.report(min((number + 1) * PART_QUESTIONS, len(questions)))
    with pq.ParquetWriter(out / ANSWERS, SCHEMA, compression="zstd") as writer:
        for place in places:
            writer.write_table(pq.read_table(place, filesystem=storage.files))
    errors = pq.read_table(out / ANSWERS, columns=["id"], filters=pc.field("error") != "").num_rows
    return {"questions": len(questions), "errors": errors}


def _answer_part(
    predictor: "Predictor", top: int, model: dict[str, str], part: Sequence[AskedQuestion]
) -> pa.Table:
    """The rows of some questions."""
    pairs = [(asked.question, context) for asked in part for context in asked.titles]
    answers = iter(predictor.answer_top(pairs, top))
    rows = []
    for asked in part:
        by_context = {context: next(answers) for context in asked.titles}
        best, *others = (
            {**answer, "title": asked.titles[answer["context"]]}
            for answer in best_over_contexts(by_context, predictor.threshold)[:top]
        )
        row = {"id": asked.id, "question": asked.question, **best, **model}
        error = asked.error or best["error"]
        rows.append({**row, "alternatives": others, "error": error})
    return pa.Table.from_pylist(rows, SCHEMA)
