"""Ingestion loses no question, and its columns agree with the texts."""

import json
import weakref
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from infra.errors import UserError
from infra.files import reporting_read_progress
from tasks.data import readers
from tasks.data.ingest import ingest_articles, ingest_file
from tasks.data.readers import read_articles
from tasks.data.schema import Answer, Article, InvalidQuestion, Paragraph, Question
from tasks.text.tokenizer import tokenize

FILES = ("contexts.parquet", "questions.parquet", "alignment.parquet")


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


def test_facts_count_outcomes_and_oracle_scores(tmp_path: Path) -> None:
    assert ingest_articles(ARTICLES, tmp_path) == {
        "articles": 3,
        "contexts": 3,
        "questions": 5,
        "answerable": 4,
        "impossible": 1,
        "exact": 1,
        "widened": 1,
        "repaired": 0,
        "dropped": 2,
        "invalid_answers": 1,
        "oracle_em": 40.0,  # exact and impossible
        "oracle_f1": 40.0,
        "context_tokens": 6,
        "question_tokens": 15,
    }


def test_rows_of_contexts_questions_and_ledger(tmp_path: Path) -> None:
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
        "fault": None,
        "reason": "ends inside the token '42nd'",
        "gold": "42",
        "gold_start": 4,
        "repaired": None,
        "repaired_start": None,
        "answer_errors": [],
        "span": "42nd",
        "em": 0.0,
        "f1": 0.0,
    }
    assert [row["outcome"] for row in ledger[2:]] == ["dropped", "impossible", "dropped"]


def test_impossible_questions_store_no_answers(tmp_path: Path) -> None:
    odd = Paragraph(context="gold", qas=[question("odd", ("gold", 0), impossible=True)])
    ingest_articles([Article(paragraphs=[odd])], tmp_path)
    assert rows(tmp_path, "questions.parquet")[0]["answers"] == []
    assert rows(tmp_path, "alignment.parquet")[0]["em"] == 1.0


def test_equal_articles_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        ingest_articles(iter(ARTICLES), tmp_path / name)
    for file in FILES:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_rejects_missing_or_duplicate_questions(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no questions found"):
        ingest_articles(ARTICLES[:1], tmp_path)
    with pytest.raises(UserError) as caught:
        ingest_articles(ARTICLES + ARTICLES, tmp_path)
    assert str(caught.value) == (
        'question id "exact" occurs twice, in article 2 "Bars", paragraph 1 and in article 5 "Bars"'
        ", paragraph 1. Give each question a unique id."
    )


def test_rejects_too_many_invalid_questions(tmp_path: Path) -> None:
    ingest_articles(ARTICLES, tmp_path, max_rejected=0.4)
    with pytest.raises(UserError) as caught:
        ingest_articles(ARTICLES, tmp_path, max_rejected=0.39)
    assert str(caught.value) == (
        "2 of 5 questions (40.0%) can't be trained on, more than the limit of 39.0%. Most common "
        'error (1): the answer is not in the context, e.g. question "dropped" (the context has '
        "'42nd g' at answer_start=4, not 'silver'; no match elsewhere). Fix the file, "
        "set repair to move such answers, or raise the limit, max_rejected."
    )


def test_repairs_change_answers_and_are_recorded(tmp_path: Path) -> None:
    moved = question("moved", ("gold", 8), ("gone", 1))
    bars = Article(paragraphs=[Paragraph(context="The 42nd gold bar", qas=[moved])])
    facts = ingest_articles([bars], tmp_path, repair=True, max_rejected=0.0)
    assert (facts["repaired"], facts["dropped"]) == (1, 0)
    assert facts["oracle_em"] == 100.0
    (row,), (ledger_row,) = (rows(tmp_path, file) for file in FILES[1:])
    assert row["answers"] == [{"text": "gold", "start": 9}]
    assert (row["span_start"], row["span_end"]) == (2, 2)
    assert [ledger_row[name] for name in ("outcome", "fault", "span")] == [
        "repaired",
        "wrong-offset",
        "gold",
    ]
    assert (ledger_row["gold"], ledger_row["gold_start"]) == ("gold", 8)
    assert (ledger_row["repaired"], ledger_row["repaired_start"]) == ("gold", 9)
    assert [(error["gold"], error["repaired"]) for error in ledger_row["answer_errors"]] == [
        ("gold", "gold"),
        ("gone", None),
    ]


SEVERAL = question("several", ("gold", 9), ("gold", 8), ("Gold", 9), ("", 9), ("silver", 0))


@pytest.mark.parametrize(("repair", "golds"), [(False, 1), (True, 3)])
def test_invalid_answers_are_not_scored_against(tmp_path: Path, repair: bool, golds: int) -> None:
    bars = Article(paragraphs=[Paragraph(context="The 42nd gold bar", qas=[SEVERAL])])
    facts = ingest_articles([bars], tmp_path, repair)
    assert (facts["exact"], facts["invalid_answers"]) == (1, 4)
    (row,), (ledger_row,) = (rows(tmp_path, file) for file in FILES[1:])
    assert row["answers"] == [{"text": "gold", "start": 9}] * golds
    assert ledger_row["fault"] is None
    assert [(error["gold_start"], error["fault"]) for error in ledger_row["answer_errors"]] == [
        (8, "wrong-offset"),
        (9, "other-characters"),
        (9, "empty-answer"),
        (0, "absent"),
    ]


def test_only_answers_are_scored_if_all_are_invalid(tmp_path: Path) -> None:
    moved = question("moved", ("gold", 8), ("silver", 0), (" ", 3))
    bars = Article(paragraphs=[Paragraph(context="The 42nd gold bar", qas=[moved])])
    assert ingest_articles([bars], tmp_path)["dropped"] == 1
    (row,) = rows(tmp_path, "questions.parquet")
    assert [answer["text"] for answer in row["answers"]] == ["gold", "silver"]


def test_invalid_fields_are_in_the_ledger(tmp_path: Path) -> None:
    reason = 'field "is_impossible": found "no"; it should be a valid boolean'
    invalid = InvalidQuestion(id="flag", question="What?", answers=[], reason=reason)
    bars = Article(paragraphs=[Paragraph(context="The gold bar", qas=[invalid])])
    ingest_articles([bars], tmp_path)
    (row,) = rows(tmp_path, "alignment.parquet")
    assert (row["outcome"], row["fault"], row["reason"]) == ("dropped", "invalid-field", reason)


# Words of sentences without spaces, punctuation and words of other scripts among them.
WORDS = {
    "Chinese": "我 喜欢 北京 的 天气 ， 2008年 奥运会 在 《红楼梦》 里 。 iPhone 1,000.5 元 ㄅㄆ",
    "Japanese": "私 は 東京 で カツ丼 を 食べた 。 「羅生門」 ﾃﾞﾊﾟｰﾄ の Tシャツ は 1,980 円 だ",
    "Thai": 'ฉัน ชอบ น้ำ ที่ เชียงใหม่ ใน ปี ๒๕๔๐ พ.ศ. และ กำลัง อ่าน "สี่แผ่นดิน" ฯ WiFi 3.5 บาท',
}


@pytest.mark.parametrize("language", WORDS)
def test_perfect_spans_without_spaces_score_full(tmp_path: Path, language: str) -> None:
    """Answers are one to four words of sentences, in which every other word is of the script."""
    rng, words = Random(language), WORDS[language].split()
    native = [word for word in words if not word[0].isascii()]
    paragraphs = []
    for number in range(300):
        drawn = [rng.choice(choices) for choices in (native, words) * 10]
        first = rng.randrange(16)
        text = "".join(drawn[first : first + rng.randint(1, 4)])
        answered = question(str(number), (text, len("".join(drawn[:first]))))
        paragraphs.append(Paragraph(context="".join(drawn), qas=[answered]))
    facts = ingest_articles([Article(paragraphs=paragraphs)], tmp_path)
    assert facts["oracle_em"] >= 99


def test_scores_follow_the_script_of_the_context(tmp_path: Path) -> None:
    """A span with a typographic apostrophe more is right by characters, but not by words."""
    for context, score in (("他穿着一条Levi’s 牛仔裤", 100), ("He wears Levi’s jeans", 0)):
        worn = Paragraph(context=context, qas=[question("s", ("s", context.index("’") + 1))])
        assert ingest_articles([Article(paragraphs=[worn])], tmp_path)["oracle_em"] == score


class Text(str):
    """A text whose deletion can be observed."""


def test_articles_leave_the_memory(tmp_path: Path) -> None:
    in_memory: set[int] = set()
    most = 0
    references = []

    def articles() -> Iterator[Article]:
        nonlocal most
        for i in range(20):
            entries = []
            for n in range(100 * i, 100 * i + 100):
                text = Text("Which one?")
                in_memory.add(n)
                references.append(
                    weakref.ref(text, lambda _, n=n: in_memory.discard(n))  # type: ignore[misc]
                )
                entry = question(str(n), ("gold", 9))
                entries.append(entry.model_copy(update={"question": text}))
            most = max(most, len(in_memory))
            yield Article(paragraphs=[Paragraph(context="The 42nd gold bar", qas=entries)])

    ingest_articles(articles(), tmp_path)
    assert most == 200


def flat(articles: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """The questions of articles, one entry each, with some of the fields."""
    entries = [
        {"title": article["title"], "context": paragraph["context"], **question}
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    return [{name: entry[name] for name in names} for entry in entries]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> dict[str, Path]:
    """Three articles of SQuAD 2.0, with 420 questions, in files of all formats."""
    folder = tmp_path_factory.mktemp("real")
    articles = json.loads((shared_data / "squad/dev-v2.0.json").read_bytes())["data"][10:13]
    names = ("id", "context", "question", "answers")
    untitled, titled = flat(articles, *names), flat(articles, *names, "title", "is_impossible")
    mixed = [*articles[:1], *untitled[len(untitled) // 2 :]]
    files = {name: folder / name for name in ("own.json", "own.parquet")}
    files["own.json"].write_text(json.dumps({"data": articles}, indent=1), encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(titled), files["own.parquet"], row_group_size=99)
    shuffled = Random(0).sample(titled, len(titled))
    for name, entries in (
        ("titled", titled),
        ("untitled", untitled),
        ("mixed", mixed),
        ("shuffled", shuffled),
    ):
        files[name] = folder / f"{name}.jsonl"
        files[name].write_text("".join(json.dumps(entry) + "\n\n" for entry in entries))
    return files


def ingested(file: Path, shard_bytes: int) -> tuple[dict[str, Any], list[pa.Table]]:
    """The facts and the tables of a file that is ingested in shards of some size."""
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "SHARD_BYTES", shard_bytes)
        facts = ingest_file(Path(name), file)
        facts["oracle_f1"] = pytest.approx(facts["oracle_f1"])  # the order of summation differs
        return facts, [pq.read_table(Path(name) / table, memory_map=False) for table in FILES]


@pytest.mark.parametrize(
    "name", ["own.json", "own.parquet", "titled", "untitled", "mixed", "shuffled"]
)
def test_files_do_not_depend_on_the_shards(real: dict[str, Path], name: str) -> None:
    whole = ingested(real[name], 1 << 30)
    assert whole[0]["questions"] > 200

    @given(st.integers(2000, 100_000))
    @settings(max_examples=4)
    def check(shard_bytes: int) -> None:
        assert ingested(real[name], shard_bytes) == whole

    check()


@pytest.mark.parametrize("shard_bytes", [1, 1 << 30])
def test_first_error_in_the_file_is_raised(tmp_path: Path, shard_bytes: int) -> None:
    """The reader finds the missing comma before the shard with the wrong title is parsed."""
    good = json.dumps({"title": "Bars", "paragraphs": []})
    bad = json.dumps({"title": 7, "paragraphs": []})
    file = tmp_path / "own.json"
    for articles, sentence in (
        (
            f"{good}, {bad}, {good} {good}",
            'article 2 7, field "title": found 7; it should be a valid',
        ),
        (f"{good}, {good} {bad}", "not valid JSON (found `{`, not `,` or `]`, at line 2 column"),
    ):
        file.write_text(f'{{"data": [\n{articles}]}}')
        with pytest.raises(UserError) as caught:
            ingested(file, shard_bytes)
        assert str(caught.value).startswith(f"{file}: {sentence}")


def test_progress_follows_the_results(real: dict[str, Path], tmp_path: Path) -> None:
    shares: list[float] = []
    with (
        reporting_read_progress(lambda _, share: shares.append(share)),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(readers, "SHARD_BYTES", 1)
        ingest_file(tmp_path, real["own.parquet"])
    assert shares == sorted(shares) and len(shares) > 3
    assert 0 < shares[0] < 0.5 and shares[-1] == 1


@pytest.mark.heavy
def test_handles_5_mb_context_with_4000_answers(tmp_path: Path) -> None:
    context = "The 42nd gold bar, " * 270_000
    shifted = [("gold", 19 * i + 10) for i in range(4000)]
    entries = [
        question("whole", (context, 0)),
        question("many", *[("gold", 19 * i + 9) for i in range(4000)]),
        question("shifted", *shifted),
        question("composed", ("gold\u00a0bar", 1000)),
    ]
    article = Article(paragraphs=[Paragraph(context=context, qas=entries)])
    facts = ingest_articles([article], tmp_path, repair=True)
    assert (facts["contexts"], facts["exact"], facts["repaired"]) == (1, 2, 2)
    whole, many, *_ = rows(tmp_path, "questions.parquet")
    assert (whole["span_start"], whole["span_end"]) == (0, facts["context_tokens"] - 1)
    assert len(many["answers"]) == 4000


CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.text(CHARACTERS, max_size=20)
ANSWERS = st.builds(Answer, text=TEXTS, answer_start=st.integers(-1, 2**31 - 1))


@st.composite
def questions(draw: st.DrawFn, context: str) -> Question:
    """A question whose answers match their answer_start, are off by one, or are arbitrary texts."""
    answers = draw(st.lists(ANSWERS, max_size=1))
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(context)))
        text = context[start : draw(st.integers(start, len(context)))]
        answers.append(Answer(text=text, answer_start=start + draw(st.sampled_from([0, 0, 1]))))
    return Question(
        id=str(draw(st.uuids())),
        question=draw(TEXTS),
        answers=answers,
        is_impossible=draw(st.booleans()),
    )


PARAGRAPHS = st.text(CHARACTERS | st.sampled_from(" .'a1"), max_size=40).flatmap(
    lambda context: st.builds(
        Paragraph, context=st.just(context), qas=st.lists(questions(context), max_size=3)
    )
)
ANY_ARTICLES = st.builds(Article, title=TEXTS, paragraphs=st.lists(PARAGRAPHS, max_size=3))


@given(st.lists(ANY_ARTICLES, min_size=1, max_size=3), st.booleans())
@settings(max_examples=60)
def test_every_question_is_kept_with_valid_offsets(articles: list[Article], repair: bool) -> None:
    entries = [q for a in articles for p in a.paragraphs for q in p.qas]
    assume(entries)
    with TemporaryDirectory() as name:
        file = Path(name) / "own.json"
        file.write_text(json.dumps({"data": [article.model_dump() for article in articles]}))
        facts = ingest_articles(read_articles(file), Path(name), repair)
        contexts, written, ledger = (rows(Path(name), file) for file in FILES)
    ids = [q.id for q in entries]
    assert [row["id"] for row in written] == [row["id"] for row in ledger] == ids
    assert [row["question"] for row in written] == [q.question for q in entries]
    outcomes = ("exact", "widened", "repaired", "dropped", "impossible")
    assert sum(facts[outcome] for outcome in outcomes) == facts["questions"] == len(entries)
    faults = [row["fault"] for row in ledger if row["outcome"] in ("dropped", "repaired")]
    assert len(faults) == facts["dropped"] + facts["repaired"] and None not in faults
    for column, texts in (("text", contexts), ("question", written)):
        for row in texts:
            spans = list(zip(row["token_starts"], row["token_ends"], strict=True))
            assert spans == tokenize(row[column])
    for row, ledger_row in zip(written, ledger, strict=True):
        check_span(contexts[row["context_id"]], row, ledger_row)


def check_span(context: dict[str, Any], row: dict[str, Any], ledger_row: dict[str, Any]) -> None:
    """Check that an aligned answer lies within its tokens, and that others have no tokens."""
    if ledger_row["outcome"] in ("dropped", "impossible"):
        assert (row["span_start"], row["span_end"], ledger_row["span"]) == (-1, -1, "")
        return
    column = "repaired" if ledger_row["outcome"] == "repaired" else "gold"
    text, start = ledger_row[column], ledger_row[f"{column}_start"]
    first, last = context["token_starts"][row["span_start"]], context["token_ends"][row["span_end"]]
    assert ledger_row["span"] == context["text"][first:last]
    assert context["text"].startswith(text, start)
    begin = start + len(text) - len(text.lstrip())
    assert first <= begin < begin + len(text.strip()) <= last
    if column == "gold":
        is_exact = ledger_row["outcome"] == "exact"
        assert is_exact == (ledger_row["span"] == text.strip()) == (not ledger_row["reason"])


def test_ingests_squad_dev_v1(shared_data: Path, tmp_path: Path) -> None:
    facts = ingest_articles(read_articles(shared_data / "squad/dev-v1.1.json"), tmp_path)
    assert (facts["articles"], facts["contexts"], facts["questions"]) == (48, 2067, 10570)
    assert (facts["dropped"], facts["impossible"]) == (0, 0)
    assert facts["exact"] > 0.995 * 10570
    assert facts["oracle_em"] > 99.5
    assert facts["oracle_f1"] > 99.5
    contexts = rows(tmp_path, "contexts.parquet")
    questions, ledger = rows(tmp_path, "questions.parquet"), rows(tmp_path, "alignment.parquet")
    assert len(ledger) == len(questions) == 10570
    # Trained models and measurements depend on the tokens.
    tokens = repr([(row["token_starts"], row["token_ends"]) for row in [*contexts, *questions]])
    assert (
        sha256(tokens.encode()).hexdigest()
        == "061ac3803ea0c480da343965d63d08561b2fb6ef6571d400152bd29b2d7c992d"
    )
    for row, ledger_row in zip(questions, ledger, strict=True):
        check_span(contexts[row["context_id"]], row, ledger_row)
        assert ledger_row["gold"] in [answer["text"] for answer in row["answers"]]
