import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infra.errors import UserError
from models.span_decoding import Predictions
from tasks.data.ingest import ingest_articles
from tasks.data.readers import read_articles
from tasks.data.schema import Answer, Article, Paragraph, Question
from tasks.evaluation.evaluate import (
    EvaluationSplit,
    Gold,
    character_spans,
    evaluate,
    load_split,
    read_groups,
    write_predictions,
)
from tests.factories.splits import WRITTEN, ingest, write_split


def predictions(start: list[int], end: list[int]) -> Predictions:
    scores = np.linspace(-1, 0, len(start))
    return Predictions(np.array(start), np.array(end), scores, scores - 1)


@pytest.fixture
def split(tmp_path: Path) -> EvaluationSplit:
    return load_split(write_split(tmp_path))


def test_load_split_returns_the_written_data(split: EvaluationSplit) -> None:
    assert split.contexts == [context for context, _ in WRITTEN]
    assert split.context_of.tolist() == [0, 0, 1, 2]
    assert split.golds[0] == [Gold("Ada Lovelace", 0), Gold("Lovelace", 4)]
    assert split.golds[1] == []
    assert split.context_lengths.tolist() == [5, 3, 2]
    assert split.v2


@pytest.mark.parametrize(("articles", "groups"), [(4, [0, 1, 2, 3]), (5, [0, 0, 1, 1])])
def test_groups_are_articles_if_there_are_enough(
    split: EvaluationSplit, tmp_path: Path, articles: int, groups: list[int]
) -> None:
    """Each article has two contexts, of one question each."""
    rows, empty = np.arange(2 * articles), [[] for _ in range(2 * articles)]
    texts = [str(row) for row in rows]
    many = replace(
        split,
        contexts=texts,
        token_starts=np.zeros(len(rows), int),
        token_ends=np.ones(len(rows), int),
        first_token=np.arange(len(rows) + 1),
        ids=texts,
        questions=texts,
        golds=empty,
        answerable=np.zeros(len(rows), bool),
        span_start=np.full(len(rows), -1),
        span_end=np.full(len(rows), -1),
        context_of=rows,
        article_of=rows // 2,
    )
    none = np.full(len(rows), -1)
    answers = Predictions(none, none, np.full(len(rows), -1.0), np.zeros(len(rows)))
    write_predictions(tmp_path / "predictions.parquet", many, evaluate(many, answers))
    assert read_groups(tmp_path / "predictions.parquet")[:4].tolist() == groups


def test_span_texts_keep_the_context_spacing(split: EvaluationSplit) -> None:
    assert evaluate(split, predictions([0, -1, 0, 0], [4, -1, 2, 1])).texts == [
        "Ada Lovelace  wrote\nnotes.",
        "",
        "π ≈ 3",
        "a 𝔘x",
    ]


def test_character_offsets_are_per_context(split: EvaluationSplit) -> None:
    starts, ends = character_spans(split, np.array([1, -1, 2, 1]), np.array([2, -1, 2, 1]))
    assert starts.tolist() == [4, -1, 4, 2]
    assert ends.tolist() == [19, -1, 5, 4]


def test_scores_match_a_worked_example(split: EvaluationSplit) -> None:
    evaluation = evaluate(split, predictions([0, -1, 2, 0], [1, -1, 2, 1]))
    assert evaluation.texts == ["Ada Lovelace", "", "3", "a 𝔘x"]
    assert [row.em for row in evaluation.questions] == [1, 1, 0, 1]
    assert [row.f1 for row in evaluation.questions] == pytest.approx([1, 1, 2 / 3, 1])
    assert (evaluation.scores.em, evaluation.scores.count) == (75, 4)
    assert evaluation.scores.f1 == pytest.approx(100 * (3 + 2 / 3) / 4)


def test_v1_rule_applies_if_all_questions_have_answers(tmp_path: Path) -> None:
    split = load_split(write_split(tmp_path, answered_only=True))
    assert split.answerable.all() and not split.v2
    evaluation = evaluate(split, predictions([0, 0, 0], [1, 0, 0]))
    assert [row.em for row in evaluation.questions] == [1, 0, 0]


def test_question_without_tokens_gets_no_answer(tmp_path: Path) -> None:
    split = load_split(ingest(tmp_path / "split", ("Ada wrote notes.", ["Who?", " \n", "What?"])))
    predicted = predictions([0, 1, 2], [1, 2, 2])
    evaluation = evaluate(split, predicted, math.inf)
    assert evaluation.texts == ["Ada wrote", "", "notes"]
    assert evaluation.start_chars.tolist() == [0, -1, 10]
    assert evaluation.end_chars.tolist() == [9, -1, 15]
    scores = [predicted.span_score[0], predicted.no_answer_score[1], predicted.span_score[2]]
    assert evaluation.log_probabilities.tolist() == scores


def test_silence_is_wrong_if_the_answer_is_unknown(tmp_path: Path) -> None:
    """A dropped question without answers is not unanswerable; without others, v1.1 applies."""
    asked = Question(id="1", question="Who?", answers=[Answer(text="Ada", answer_start=0)])
    dropped = Question(id="2", question="When?", answers=[])
    paragraph = Paragraph(context="Ada wrote", qas=[asked, dropped])
    facts = ingest_articles([Article(paragraphs=[paragraph])], tmp_path)
    split = load_split(tmp_path)
    assert split.answerable.all() and not split.v2
    assert evaluate(split, predictions([-1, -1], [-1, -1])).questions == [(0, 0, 0)] * 2
    scores = evaluate(split, predictions([0, 1], [0, 1])).scores
    assert (scores.em, scores.f1, scores.avna) == (50, 50, 100)
    assert (facts["oracle_em"], facts["oracle_f1"]) == (50, 50)


def test_rejects_wrong_prediction_counts(split: EvaluationSplit) -> None:
    with pytest.raises(UserError, match=r"3 predictions for the 4 questions"):
        evaluate(split, predictions([0, 0, 0], [0, 0, 0]))
    with pytest.raises(UserError, match=r"5 predictions for the 4 questions"):
        evaluate(split, predictions([-1] * 5, [-1] * 5))


@pytest.mark.parametrize(("start", "end"), [(3, 3), (2, 1), (-1, 1), (1, -1), (-2, -2)])
def test_rejects_spans_outside_their_context(split: EvaluationSplit, start: int, end: int) -> None:
    with pytest.raises(ValueError, match=f"'q3': tokens {start} to {end}, .* has 3 tokens"):
        evaluate(split, predictions([0, 0, start, 0], [0, 0, end, 0]))


def test_predictions_file_has_all_columns_and_rows(tmp_path: Path, split: EvaluationSplit) -> None:
    predicted = predictions([0, -1, 2, 0], [1, -1, 2, 1])
    write_predictions(tmp_path / "predictions.parquet", split, evaluate(split, predicted))
    table = pq.read_table(tmp_path / "predictions.parquet")
    assert table.column_names == [
        "id",
        "context_id",
        "group",
        "prediction",
        "span_start_char",
        "span_end_char",
        "score",
        "em",
        "f1",
        "uncalibrated_score",
        "no_answer_probability",
        "no_answer_score",
        "no_answer_em",
        "best_prediction",
        "best_span_start_char",
        "best_span_end_char",
        "best_score",
        "best_em",
        "best_f1",
    ]
    assert table["span_start_char"].type == pa.int32()
    assert table["score"].to_pylist() == [
        *predicted.span_score[:1],
        predicted.no_answer_score[1],
        *predicted.span_score[2:],
    ]
    rows = table.to_pylist()
    assert [row["id"] for row in rows] == split.ids
    assert [row["prediction"] for row in rows] == ["Ada Lovelace", "", "3", "a 𝔘x"]
    assert [row["em"] for row in rows] == [1, 1, 0, 1]
    assert [row["f1"] for row in rows] == pytest.approx([1, 1, 2 / 3, 1])
    assert (rows[1]["span_start_char"], rows[1]["span_end_char"]) == (-1, -1)
    for row, context in zip(rows, split.context_of, strict=True):
        if row["span_start_char"] >= 0:
            text = split.contexts[context][row["span_start_char"] : row["span_end_char"]]
            assert text == row["prediction"]


def test_best_span_is_stored_beside_no_answer(tmp_path: Path, split: EvaluationSplit) -> None:
    scores = np.array([-1.0, -2.0, -1.0, -1.0])
    predicted = Predictions(np.array([0, 0, 2, 0]), np.array([1, 0, 2, 1]), scores, scores + 0.5)
    write_predictions(tmp_path / "predictions.parquet", split, evaluate(split, predicted))
    rows = pq.read_table(tmp_path / "predictions.parquet").to_pylist()
    assert [row["prediction"] for row in rows] == [""] * 4
    assert [row["em"] for row in rows] == [row["no_answer_em"] for row in rows] == [0, 1, 0, 0]
    assert [row["best_prediction"] for row in rows] == ["Ada Lovelace", "Ada", "3", "a 𝔘x"]
    assert [row["best_em"] for row in rows] == [1, 0, 0, 1]
    margins = [row["no_answer_score"] - row["best_score"] for row in rows]
    assert margins == pytest.approx([0.5] * 4)
    answered = evaluate(split, predicted, 0.6)
    assert answered.texts == [row["best_prediction"] for row in rows]


@pytest.mark.parametrize(("name", "count"), [("dev-v1.1", 10_570), ("dev-v2.0", 11_873)])
def test_gold_spans_reach_the_oracle_scores(
    shared_data: Path, tmp_path: Path, name: str, count: int
) -> None:
    facts = ingest_articles(read_articles(shared_data / "squad" / f"{name}.json"), tmp_path)
    split = load_split(tmp_path)
    nothing = np.zeros(len(split))
    golden = Predictions(split.span_start, split.span_end, nothing, nothing - 1)
    scores = evaluate(split, golden).scores
    assert scores.count == count
    assert scores.em == pytest.approx(facts["oracle_em"])
    assert scores.f1 == pytest.approx(facts["oracle_f1"])
    assert scores.em > 99.9


def test_script_of_the_context_chooses_the_rule(split: EvaluationSplit) -> None:
    """Not that of the answer, which is the model's choice, nor single words."""
    contexts = ["Kublai (忽必烈) was Mongol.", "忽必烈 Kublai 是元朝的皇帝。", "Это Хубилай."]
    mixed = replace(split, contexts=contexts, golds=[[Gold("忽必烈", 0)]] * 4)
    assert mixed.by_units == [False, False, True, True]
    scores = mixed.score(["忽必烈！"] * 4)
    assert [score.em for score in scores] == [0, 0, 1, 1]
    assert not any(split.by_units[:2]), "English"
