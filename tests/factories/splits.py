"""Small ingested splits for tests."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from models.span_decoding import Predictions
from tasks.data.ingest import ingest_articles
from tasks.data.schema import Answer, Article, Paragraph, Question
from tasks.evaluation.evaluate import EvaluationSplit, evaluate, write_predictions

Tokens = list[tuple[int, int]]

WRITTEN: list[tuple[str, Tokens]] = [
    ("Ada Lovelace  wrote\nnotes.", [(0, 3), (4, 12), (14, 19), (20, 25), (25, 26)]),
    ("π ≈ 3", [(0, 1), (2, 3), (4, 5)]),
    ("a 𝔘x", [(0, 1), (2, 4)]),
]

QUESTIONS: list[tuple[str, int, str, list[tuple[str, int]], tuple[int, int]]] = [
    ("q1", 0, "Who wrote notes?", [("Ada Lovelace", 0), ("Lovelace", 4)], (0, 1)),
    ("q2", 0, "When were they written?", [], (-1, -1)),
    ("q3", 1, "How much is π?", [("≈ 3", 2), ("π ≈ 3", 0)], (1, 2)),
    ("q4", 2, "To whom?", [("𝔘x", 2)], (1, 1)),
]


def write_split(folder: Path, *, answered_only: bool = False) -> Path:
    """Write contexts.parquet and questions.parquet from `WRITTEN` and `QUESTIONS`."""
    offsets = pa.list_(pa.int32())
    contexts = {
        "context_id": pa.array(range(len(WRITTEN)), pa.int32()),
        "text": pa.array([text for text, _ in WRITTEN]),
        "article": pa.array(range(len(WRITTEN)), pa.int32()),
        "token_starts": pa.array([[start for start, _ in row] for _, row in WRITTEN], offsets),
        "token_ends": pa.array([[end for _, end in row] for _, row in WRITTEN], offsets),
    }
    kept = [row for row in QUESTIONS if row[3] or not answered_only]
    ids, context_ids, questions, answers, spans = zip(*kept, strict=True)
    answer = pa.struct([("text", pa.string()), ("start", pa.int32())])
    columns = {
        "id": pa.array(ids),
        "context_id": pa.array(context_ids, pa.int32()),
        "question": pa.array(questions),
        "answers": pa.array(answers, pa.list_(answer)),
        "is_impossible": pa.array([not row for row in answers]),
        "span_start": pa.array([start for start, _ in spans], pa.int32()),
        "span_end": pa.array([end for _, end in spans], pa.int32()),
    }
    pq.write_table(pa.table(contexts), folder / "contexts.parquet")
    pq.write_table(pa.table(columns), folder / "questions.parquet")
    return folder


def predict_spans(folder: Path, split: EvaluationSplit, spans: list[tuple[int, int]]) -> None:
    """Write predictions.parquet with these predicted token spans, in order of rising confidence."""
    start, end = np.array(spans).T
    scores = np.linspace(-2, -0.1, len(spans))
    answers = Predictions(start, end, scores, scores - 1.0)
    write_predictions(folder / "predictions.parquet", split, evaluate(split, answers))


def ingest(folder: Path, *paragraphs: tuple[str, list[str]]) -> Path:
    """Ingest a split of contexts, each with its unanswerable questions; returns the folder."""
    folder.mkdir()
    parsed = [
        Paragraph(
            context=context,
            qas=[
                Question(id=f"{number}-{i}", question=question, answers=[], is_impossible=True)
                for i, question in enumerate(questions)
            ],
        )
        for number, (context, questions) in enumerate(paragraphs)
    ]
    ingest_articles([Article(title="made", paragraphs=parsed)], folder)
    return folder


def ingest_articles_with_answers(
    folder: Path, articles: int, questions: int = 10, unanswerable: int = 2
) -> Path:
    """Ingest articles of one context each, with so many questions, the first of which have no
    answer; returns the folder. The others are answered by the third and fourth word."""
    folder.mkdir()
    ingest_articles(map(partial(_article, questions, unanswerable), range(articles)), folder)
    return folder


def _article(questions: int, unanswerable: int, number: int) -> Article:
    context = f"District {number} has {number + 2} mills. It lies far away."
    answer = Answer(text=f"has {number + 2}", answer_start=context.index("has"))
    qas = [
        Question(
            id=f"{number}-{n}",
            question="How many mills are there?",
            answers=[] if n < unanswerable else [answer],
            is_impossible=n < unanswerable,
        )
        for n in range(questions)
    ]
    return Article(title=f"{number}", paragraphs=[Paragraph(context=context, qas=qas)])
