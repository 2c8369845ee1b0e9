"""Splits of ingested files: parts, weights, overlap, and their rows and statistics."""

import json
from collections import Counter
from itertools import compress, product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from infra.errors import UserError
from tasks.data.ingest import ingest_file
from tasks.data.ingested import (
    Contexts,
    Portion,
    article_keys,
    hash_uniform,
    questions_with_ledger,
)
from tasks.data.splits import (
    Exclusions,
    Shares,
    divide,
    has_validation,
    keep_part,
    write_split,
)
from tasks.datasets.catalog import SplitName
from tasks.datasets.tiny import generate, write_tiny
from tests.factories.split_files import ingested, new, rows, write

SHARES = Shares(validation=0.2, dev=0.1, seed=5)
PARTS: tuple[SplitName, ...] = ("train", "validation", "dev")


def ingest_contexts(folder: Path, **questions: str) -> Portion:
    """An ingested file with one article per context. `questions` maps question ids to contexts."""
    data = [
        {"title": "", "paragraphs": [{"context": text, "qas": [unanswerable(id)]}]}
        for id, text in questions.items()
    ]
    name = "-".join(questions)
    return ingested(write(folder / f"{name}.json", {"data": data}))


def unanswerable(id: str) -> dict[str, Any]:
    return {"id": id, "question": f"Why {id}?", "answers": [], "is_impossible": True}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Portion:
    """The training articles of the generated dataset, ingested as one file."""
    folder = tmp_path_factory.mktemp("whole")
    write_tiny(folder, 3)
    return ingested(folder / "train.json")


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> list[Portion]:
    """The same articles in two files."""
    folder = tmp_path_factory.mktemp("halves")
    articles = generate(3)[0]["data"]
    return [
        ingested(write(folder / f"{name}.json", {"data": part}))
        for name, part in (("first", articles[:7]), ("second", articles[7:]))
    ]


@pytest.mark.parametrize("files", [1, 2])
def test_shuffled_rows_split_like_sorted_ones(tmp_path: Path, files: int) -> None:
    """No title of dev is in train, whether the rows of an article are apart in one file or two."""
    table = [
        {"title": f"Bars {article}", "context": f"Bar {article}{part}", **unanswerable(f"{n}")}
        for n, (article, part) in enumerate(product(range(30), range(3)))
    ]
    shares = Shares(validation=0.2, dev=0.2, seed=2)
    expected = parts_of_titles([ingested(write_rows(tmp_path / "sorted.jsonl", table))], shares)
    assert len({*expected.values()}) == 3
    Random(2).shuffle(table)
    portions = [
        ingested(write_rows(tmp_path / f"{number}.jsonl", table[number::files]))
        for number in range(files)
    ]
    assert parts_of_titles(portions, shares) == expected
    if files == 1:
        assert len(Contexts(portions[0]).articles) == 30


def write_rows(file: Path, table: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in table))
    return file


def parts_of_titles(portions: list[Portion], shares: Shares) -> dict[str, SplitName]:
    """The only part with contexts of each title."""
    parts: dict[str, SplitName] = {}
    for part in PARTS:
        contexts = [Contexts(portion) for portion in portions]
        keep_part(contexts, part, shares)
        for portion in contexts:
            for title in {portion.articles[a][0] for a in portion.article_of[portion.keep]}:
                assert parts.setdefault(title, part) == part
    return parts


def test_articles_of_the_same_title_in_json_are_apart(tmp_path: Path) -> None:
    """Annotation tools give all articles one title."""
    data = [
        {"title": "my data", "paragraphs": [{"context": f"Bar {n}", "qas": [unanswerable(f"{n}")]}]}
        for n in range(40)
    ]
    portion = ingested(write(tmp_path / "own.json", {"data": data}))
    assert len(set(article_keys([Contexts(portion)])[0])) == 40


def test_two_files_split_like_one_joined_file(
    whole: Portion, halves: list[Portion], tmp_path: Path
) -> None:
    facts = write_split(tmp_path, halves)
    for name in ("contexts", "questions", "alignment"):
        assert rows(tmp_path, name) == rows(whole.folder, name)
    expected = ingest_file(new(tmp_path / "again"), whole.folder.with_suffix(".json"))
    assert expected.pop("read_as") == ["read as SQuAD JSON: 90 articles"]
    actual = {key: facts[key] for key in expected}
    assert actual == pytest.approx(expected)


def test_parts_cover_all_questions_by_whole_articles(
    whole: Portion, halves: list[Portion], tmp_path: Path
) -> None:
    articles, ids = [], []
    for part in ("train", "validation", "dev"):
        facts = write_split(new(tmp_path / part), halves, part, SHARES)
        contexts = rows(tmp_path / part, "contexts")
        assert [row["context_id"] for row in contexts] == list(range(len(contexts)))
        assert {row["article"] for row in contexts} == set(range(facts["articles"]))
        texts = {row["context_id"]: row["text"] for row in contexts}
        questions = rows(tmp_path / part, "questions")
        for row in questions:
            for answer in row["answers"]:
                end = answer["start"] + len(answer["text"])
                assert texts[row["context_id"]][answer["start"] : end] == answer["text"]
        assert [r["id"] for r in questions] == [r["id"] for r in rows(tmp_path / part, "alignment")]
        ids += [row["id"] for row in questions]
        articles.append({row["title"] for row in contexts})
    assert sorted(ids) == sorted(row["id"] for row in rows(whole.folder, "questions"))
    assert not articles[0] & articles[1] | articles[0] & articles[2] | articles[1] & articles[2]
    assert write_split(new(tmp_path / "one"), [whole], "dev", SHARES)["questions"] == len(questions)


def test_weight_sets_how_often_questions_occur(
    whole: Portion, halves: list[Portion], tmp_path: Path
) -> None:
    first, second = halves
    mixed = Portion(second.folder, second.name, 2.25, divided=False)
    facts = write_split(tmp_path, [first, mixed], "all", Shares(seed=1))
    own = [row["id"] for row in rows(first.folder, "questions")]
    other = [row["id"] for row in rows(second.folder, "questions")]
    written = [row["id"] for row in rows(tmp_path, "questions")]
    assert len(set(written)) == len(written) == facts["questions"]
    occurrences = Counter(key.partition("×")[0] for key in written)
    assert {occurrences[key] for key in own} == {1}
    assert {occurrences[key] for key in other} == {2, 3}
    assert sum(occurrences[key] for key in other) == pytest.approx(2.25 * len(other), rel=0.03)
    assert facts["contexts"] == len(rows(whole.folder, "contexts")), "each context occurs once"
    for questions, ledger in questions_with_ledger(tmp_path):
        assert questions.column("id").equals(ledger.column("id"))
    assert facts["files"][1] == {"name": "second.json", "weight": 2.25}


def test_overlap_with_dev_is_rejected_or_left_out(tmp_path: Path) -> None:
    train = ingest_contexts(tmp_path, a="One text.", b="Another  TEXT.", c="")
    evaluation = ingest_contexts(tmp_path, d=" another\ntext. ", e="A third text.", f="")
    with pytest.raises(UserError, match=r'^1 of 3 .* context 2 of a-b-c\.json: "Another  TEXT\."'):
        write_split(new(tmp_path / "refused"), [train], apart=Exclusions(evaluation.folder))
    assert not list((tmp_path / "refused").iterdir())
    facts = write_split(
        new(tmp_path / "kept"), [train], apart=Exclusions(evaluation.folder, overlap="leave out")
    )
    assert [row["id"] for row in rows(tmp_path / "kept", "questions")] == ["a", "c"]
    assert (facts["contexts"], facts["contexts_left_out"]) == (2, 1)


def test_held_out_duplicates_are_never_trained_on(tmp_path: Path) -> None:
    twice = [
        ingest_contexts(tmp_path, **{f"{i}-{j}": f"Text {i % 12}." for i in range(j, 24, 2)})
        for j in (0, 1)
    ]
    shares = Shares(validation=0.25, seed=2)
    held_out = new(tmp_path / "validation")
    write_split(held_out, twice, "validation", shares)
    facts = write_split(
        new(tmp_path / "train"), twice, "train", shares, apart=Exclusions(held_out=(held_out,))
    )
    texts = [
        {row["text"] for row in rows(tmp_path / p, "contexts")} for p in ("train", "validation")
    ]
    assert not texts[0] & texts[1]
    assert facts["contexts_left_out"] == 24 - facts["contexts"] - len(rows(held_out, "contexts"))


def write_parts(folder: Path, portions: list[Portion], shares: Shares) -> tuple[list[Path], int]:
    """The splits dev, validation and train, and how many contexts are left out of them."""
    folders, left_out = list[Path](), 0
    for part in ("dev", "validation", "train"):
        folders.append(new(folder / part))
        apart = Exclusions(held_out=tuple(folders[:-1]))
        left_out += write_split(folders[-1], portions, part, shares, apart)["contexts_left_out"]
    return folders, left_out


@pytest.mark.parametrize(("tickets", "pages"), [(600, 60), (90, 3), (90, 7)])
@pytest.mark.parametrize("files", [1, 2])
def test_equal_texts_stay_together(tmp_path: Path, tickets: int, pages: int, files: int) -> None:
    """As tickets about the same page, each with a subject of its own as its title."""
    articles = [
        {
            "title": f"Ticket {number}",
            "paragraphs": [
                {"context": f"Page {number % pages}.", "qas": [unanswerable(f"{number}")]}
            ],
        }
        for number in range(tickets)
    ]
    portions = [
        ingested(write(tmp_path / f"{file}.json", {"data": articles[file::files]}))
        for file in range(files)
    ]
    folders, left_out = write_parts(tmp_path, portions, Shares(validation=0.1, dev=0.1))
    texts = [{row["text"] for row in rows(folder, "contexts")} for folder in folders]
    assert sum(map(len, texts)) == len(set().union(*texts)) == pages
    assert left_out == 0


def test_a_common_beginning_does_not_join_articles(tmp_path: Path) -> None:
    """As contracts without titles that begin with the same sentence."""
    articles = [
        {
            "paragraphs": [
                {"context": "This agreement is confidential.", "qas": []},
                {"context": f"Contract {number}.", "qas": [unanswerable(f"{number:02}")]},
            ]
        }
        for number in range(40)
    ]
    portion = ingested(write(tmp_path / "contracts.json", {"data": articles}))
    dev = []
    for seed in (1, 2):
        shares = Shares(validation=0.1, dev=0.1, seed=seed)
        folders, _ = write_parts(new(tmp_path / str(seed)), [portion], shares)
        drawn = [[row["id"] for row in rows(folder, "questions")] for folder in folders]
        assert min(map(len, drawn)) > 1, "not all in one part"
        dev.append(drawn[0])
    assert dev[0] != dev[1], "the seed draws them"


def test_ids_may_repeat_across_languages_only(tmp_path: Path) -> None:
    first = ingest_contexts(tmp_path, a="One.", b="Two.")
    write_split(new(tmp_path / "out"), [first, ingest_contexts(tmp_path, c="Trois.", b="Deux.")])
    expected = ["a", "b (1: a-b.json)", "c", "b (2: c-b.json)"]
    for name in ("questions", "alignment"):
        assert [row["id"] for row in rows(tmp_path / "out", name)] == expected
    with pytest.raises(UserError, match=r"a-b\.json and d-b\.json share questions: 1 with"):
        write_split(new(tmp_path / "no"), [first, ingest_contexts(tmp_path, d="3.", b="Two.")])


def test_rejects_dividing_a_single_article(tmp_path: Path) -> None:
    one = ingest_contexts(tmp_path, a="One.")
    equal = ingest_contexts(tmp_path, b="One.", c="One.")
    for number, portions in enumerate([[one], [one, equal]]):
        with pytest.raises(UserError, match="only one article"):
            write_split(new(tmp_path / f"{number}"), portions, "train", Shares(dev=0.1))
    assert write_split(new(tmp_path / "all"), [one], "train", Shares())["questions"] == 1


@given(asked=st.lists(st.booleans(), min_size=2, max_size=12), seed=st.integers(0, 99))
def test_articles_without_questions_are_in_train(asked: list[bool], seed: int) -> None:
    assume(sum(asked) > 1)
    data: list[dict[str, Any]] = [
        {"paragraphs": [{"context": f"Text {i}.", "qas": [unanswerable(str(i))] * has_questions}]}
        for i, has_questions in enumerate(asked)
    ]
    drawn = Shares(validation=0.5, dev=0.3, seed=seed)
    with TemporaryDirectory() as name:
        every = ingested(write(Path(name) / "a.json", {"data": [{"paragraphs": []}, *data]}))
        only = ingested(write(Path(name) / "b.json", {"data": list(compress(data, asked))}))
        for part in PARTS:
            contexts = [Contexts(portion) for portion in (every, only)]
            for portion in contexts:
                keep_part([portion], part, drawn)
            kept, kept_only = (portion.keep for portion in contexts)
            assert list(compress(kept, asked)) == list(kept_only)
            assert set(kept[~np.array(asked)]) <= {part == "train"}


def test_rejects_empty_splits(tmp_path: Path) -> None:
    own = [ingest_contexts(tmp_path, a="One.", b="Two.")]
    apart = Exclusions(held_out=(ingest_contexts(tmp_path, c="One.", d="Two.").folder,))
    with pytest.raises(UserError, match=r'left in part "all"\. .* data: 2\. Add articles\.$'):
        write_split(new(tmp_path / "all"), own, apart=apart)
    drawn = Shares(validation=0.5)
    with pytest.raises(
        UserError, match=r'"validation"\. .* data: 1\. Add .* set another data\.seed'
    ):
        write_split(new(tmp_path / "validation"), own, "validation", drawn, apart)


TEXTS = st.lists(st.text(max_size=3), max_size=40)
SHARES_OF = st.builds(
    Shares, validation=st.floats(0, 0.99), dev=st.floats(0, 0.99), seed=st.integers(0)
)


def article_names(count: int) -> list[str]:
    return [f"article {i}" for i in range(count)]


def in_ranges(articles: list[str], shares: Shares) -> Counter[SplitName]:
    """How many different articles have a number in the range of each part."""
    numbers = [hash_uniform("divide", shares.seed, article) for article in set(articles)]
    return Counter(
        "dev"
        if number < shares.dev
        else "validation"
        if number >= 1 - shares.validation
        else "train"
        for number in numbers
    )


@given(articles=TEXTS, shares=SHARES_OF)
def test_every_part_gets_an_article_if_possible(articles: list[str], shares: Shares) -> None:
    parts = divide(articles, shares)
    assert len(parts) == len(articles)
    different = len(set(articles))
    counts = Counter({(part, text) for part, text in zip(parts, articles, strict=True)})
    assert len(counts) == different, "equal articles are in one part"
    assert ("train" in parts) == (different > 0)
    assert ("dev" in parts) == (shares.dev > 0 and different > 1)
    assert ("validation" in parts) == has_validation(different, shares)


@given(old=TEXTS, new=TEXTS, shares=SHARES_OF, order=st.randoms(use_true_random=False))
def test_articles_keep_their_part_as_data_grow(
    old: list[str], new: list[str], shares: Shares, order: Random
) -> None:
    assume(shares.dev + shares.validation < 1)
    before = dict(zip(old, divide(old, shares), strict=True))
    grown = order.sample(old + new, len(old) + len(new))
    after = dict(zip(grown, divide(grown, shares), strict=True))
    moved = {(before[text], after[text]) for text in before if after[text] != before[text]}
    wanted = {"train", *(part for part in ("dev", "validation") if getattr(shares, part))}
    own = in_ranges(old, shares)
    if wanted <= set(own):
        assert not moved
    if own["train"] > 1 and wanted == set(before.values()):
        assert "train" not in {part for part, _ in moved}, "no trained article is held out"


def test_a_stand_in_returns_to_its_own_part() -> None:
    """The only moves as data grow: those out of a part that was empty without the article."""
    shares, articles = Shares(dev=0.1, validation=0.1, seed=4), article_names(40)
    numbers = {text: hash_uniform("divide", 4, text) for text in articles}
    few = [text for text in articles if 0.2 < numbers[text] < 0.8][:5]
    parts = dict(zip(few, divide(few, shares), strict=True))
    assert parts[min(few, key=numbers.__getitem__)] == "dev"
    assert parts[max(few, key=numbers.__getitem__)] == "validation"
    assert Counter(parts.values()) == {"train": 3, "dev": 1, "validation": 1}
    grown = dict(zip(articles, divide(articles, shares), strict=True))
    assert {grown[text] for text in few} == {"train"}


def test_dev_file_or_share_leaves_validation_as_it_is() -> None:
    articles = article_names(200)
    validation = [
        {
            text
            for text, part in zip(articles, divide(articles, drawn), strict=True)
            if part == "validation"
        }
        for drawn in (Shares(validation=0.1, dev=dev) for dev in (0, 0.1, 0.4))
    ]
    assert validation[0] == validation[1] == validation[2] != set()


@given(seed=st.integers(0, 999))
def test_sizes_vary_around_the_shares(seed: int) -> None:
    counts = Counter(divide(article_names(1000), Shares(validation=0.2, dev=0.1, seed=seed)))
    assert counts["dev"] == pytest.approx(100, abs=50)
    assert counts["validation"] == pytest.approx(200, abs=65)


def test_titles_and_files_do_not_decide(tmp_path: Path) -> None:
    """Renamed articles, in other files and another order, stay in their parts."""
    articles = generate(3)[0]["data"]
    renamed = [{**article, "title": f"{i}"} for i, article in enumerate(reversed(articles))]
    divided = []
    for name, files in (("one", [articles]), ("three", [renamed[:3], renamed[3:5], renamed[5:]])):
        folder = new(tmp_path / name)
        portions = [
            ingested(write(folder / f"{number}.json", {"data": data}))
            for number, data in enumerate(files)
        ]
        folders, _ = write_parts(folder, portions, SHARES)
        divided.append([{row["text"] for row in rows(part, "contexts")} for part in folders])
    assert divided[0] == divided[1]
