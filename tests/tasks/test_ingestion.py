"""Ingestion loses no question, and its columns agree with the texts."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import UserError
from tasks.ingestion import ingest_articles
from tasks.squad import Answer, Article, Paragraph, Question, read_articles

FILES = ("contexts.parquet", "questions.parquet", "alignment.parquet")
RAGGED = pa.list_(pa.field("element", pa.int32()))


def question(id: str, *answers: tuple[str, int], impossible: bool = False) -> Question:
    return Question(
        id=id,
        question="Which one?",
        answers=[Answer(text=text, answer_start=start) for text, start in answers],
        is_impossible=impossible,
    )


BARS = Paragraph(
    context="The 42nd gold bar",
    qas=[
        question("exact", ("gold", 9)),
        question("widened", ("42", 4)),
        question("dropped", ("silver", 4)),
        question("impossible", impossible=True),
    ],
)
ARTICLES = [
    Article(title="Empty", paragraphs=[]),
    Article(title="Bars", paragraphs=[BARS, Paragraph(context="Unasked.", qas=[])]),
    Article(title="Bars", paragraphs=[Paragraph(context="", qas=[question("bare")])]),
]


def rows(folder: Path, file: str) -> list[dict[str, Any]]:
    return pq.read_table(folder / file).to_pylist()


def test_facts(tmp_path: Path) -> None:
    assert ingest_articles(ARTICLES, tmp_path) == {
        "articles": 3,
        "contexts": 3,
        "questions": 5,
        "answerable": 4,
        "impossible": 1,
        "exact": 1,
        "widened": 1,
        "dropped": 2,
        "oracle_em": 60.0,  # exact, impossible, and the one without answers
        "oracle_f1": 60.0,
        "context_tokens": 6,
        "question_tokens": 15,
    }


def test_contexts(tmp_path: Path) -> None:
    ingest_articles(ARTICLES, tmp_path)
    first, unasked, empty = rows(tmp_path, "contexts.parquet")
    assert first == {
        "context_id": 0,
        "article": 1,
        "title": "Bars",
        "text": "The 42nd gold bar",
        "token_starts": [0, 4, 9, 14],
        "token_ends": [3, 8, 13, 17],
    }
    assert (unasked["context_id"], unasked["article"]) == (1, 1)
    assert (empty["context_id"], empty["article"], empty["token_starts"]) == (2, 2, [])


def test_questions_and_ledger_stand_in_the_same_order(tmp_path: Path) -> None:
    ingest_articles(ARTICLES, tmp_path)
    questions, ledger = rows(tmp_path, "questions.parquet"), rows(tmp_path, "alignment.parquet")
    assert [row["id"] for row in questions] == [row["id"] for row in ledger]
    assert [(row["span_start"], row["span_end"]) for row in questions] == [
        (2, 2),
        (1, 1),
        (-1, -1),
        (-1, -1),
        (-1, -1),
    ]
    assert [row["context_id"] for row in questions] == [0, 0, 0, 0, 2]
    assert questions[0]["answers"] == [{"text": "gold", "start": 9}]
    assert ledger[1] == {
        "id": "widened",
        "outcome": "widened",
        "reason": "ends inside the token '42nd'",
        "gold": "42",
        "span": "42nd",
        "em": 0.0,
        "f1": 0.0,
    }
    assert [row["outcome"] for row in ledger[2:]] == ["dropped", "impossible", "dropped"]


def test_answers_of_an_impossible_question_are_not_kept(tmp_path: Path) -> None:
    odd = Paragraph(context="gold", qas=[question("odd", ("gold", 0), impossible=True)])
    ingest_articles([Article(paragraphs=[odd])], tmp_path)
    assert rows(tmp_path, "questions.parquet")[0]["answers"] == []
    assert rows(tmp_path, "alignment.parquet")[0]["em"] == 1.0


def test_schemas(tmp_path: Path) -> None:
    ingest_articles(ARTICLES, tmp_path)
    contexts, questions, ledger = (pq.read_schema(tmp_path / file) for file in FILES)
    assert contexts.types == [pa.int32(), pa.int32(), pa.string(), pa.string(), RAGGED, RAGGED]
    answers = pa.list_(pa.field("element", pa.struct({"text": pa.string(), "start": pa.int32()})))
    assert questions.types == [
        pa.string(),
        pa.int32(),
        pa.string(),
        RAGGED,
        RAGGED,
        answers,
        pa.bool_(),
        pa.int32(),
        pa.int32(),
    ]
    assert ledger.types == [pa.string()] * 5 + [pa.float32()] * 2


def test_equal_articles_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        ingest_articles(iter(ARTICLES), tmp_path / name)
    for file in FILES:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_data_without_questions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no question"):
        ingest_articles(ARTICLES[:1], tmp_path)


def test_an_id_may_not_repeat_across_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match='"exact" stands twice'):
        ingest_articles(ARTICLES + ARTICLES, tmp_path)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ANSWERS = st.builds(Answer, text=TEXTS, answer_start=st.integers(-1, 2**31 - 1))
QUESTIONS = st.builds(
    Question,
    id=st.uuids().map(str),
    question=TEXTS,
    answers=st.lists(ANSWERS, max_size=3),
    is_impossible=st.booleans(),
)
PARAGRAPHS = st.builds(Paragraph, context=TEXTS, qas=st.lists(QUESTIONS, max_size=3))
ARTICLE_LISTS = st.lists(
    st.builds(Article, title=TEXTS, paragraphs=st.lists(PARAGRAPHS, max_size=3)), max_size=3
)


@given(ARTICLE_LISTS)
@settings(deadline=None, max_examples=50)
def test_no_question_is_lost(articles: list[Article]) -> None:
    asked = [q.id for a in articles for p in a.paragraphs for q in p.qas]
    if not asked or len(set(asked)) < len(asked):
        return
    with TemporaryDirectory() as name:
        facts = ingest_articles(articles, Path(name))
        assert [row["id"] for row in rows(Path(name), "questions.parquet")] == asked
        assert [row["id"] for row in rows(Path(name), "alignment.parquet")] == asked
    outcomes = ("exact", "widened", "dropped", "impossible")
    assert sum(facts[outcome] for outcome in outcomes) == facts["questions"] == len(asked)


def test_dev_v1(shared_data: Path, tmp_path: Path) -> None:
    facts = ingest_articles(read_articles(shared_data / "squad/dev-v1.1.json"), tmp_path)
    assert (facts["articles"], facts["contexts"], facts["questions"]) == (48, 2067, 10570)
    assert (facts["dropped"], facts["impossible"]) == (0, 0)
    assert facts["exact"] > 0.995 * 10570
    assert facts["oracle_em"] > 99.5
    assert facts["oracle_f1"] > 99.5
    contexts = rows(tmp_path, "contexts.parquet")
    questions, ledger = rows(tmp_path, "questions.parquet"), rows(tmp_path, "alignment.parquet")
    assert len(ledger) == len(questions) == 10570
    for row, line in zip(questions, ledger, strict=True):
        context = contexts[row["context_id"]]
        start = context["token_starts"][row["span_start"]]
        end = context["token_ends"][row["span_end"]]
        assert context["text"][start:end] == line["span"]
        assert line["gold"] in line["span"]
        assert (line["gold"] == line["span"]) == (line["outcome"] == "exact")
        assert line["gold"] in [answer["text"] for answer in row["answers"]]


def test_dev_v2(shared_data: Path, tmp_path: Path) -> None:
    facts = ingest_articles(read_articles(shared_data / "squad/dev-v2.0.json"), tmp_path)
    assert (facts["questions"], facts["impossible"], facts["dropped"]) == (11873, 5945, 0)
    assert facts["oracle_f1"] > 99.9


@pytest.mark.heavy
def test_recovered_train(shared_data: Path, tmp_path: Path) -> None:
    articles = read_articles(shared_data / "squad/train-v1.1-recovered.json")
    facts = ingest_articles(articles, tmp_path)
    assert (facts["articles"], facts["contexts"], facts["questions"]) == (722, 11971, 54086)
    assert facts["dropped"] == 0
    assert facts["exact"] > 0.995 * 54086
    assert facts["oracle_f1"] > 99.5
