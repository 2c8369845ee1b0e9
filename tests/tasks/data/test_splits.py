"""Splits of ingested files: parts, weights, overlap, and their rows and statistics."""

from collections import Counter
from itertools import compress
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
from tasks.data.ingested import Contexts, Portion, questions_with_ledger
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


def test_two_files_split_like_one_joined_file(
    whole: Portion, halves: list[Portion], tmp_path: Path
) -> None:
    facts = write_split(tmp_path, halves)
    for name in ("contexts", "questions", "alignment"):
        assert rows(tmp_path, name) == rows(whole.folder, name)
    expected = ingest_file(new(tmp_path / "again"), whole.folder.with_suffix(".json"))
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


def test_equal_inputs_give_equal_bytes(halves: list[Portion], tmp_path: Path) -> None:
    mixed = Portion(halves[1].folder, halves[1].name, 0.5, divided=False)
    written = []
    for name in ("once", "again"):
        write_split(new(tmp_path / name), [halves[0], mixed], "train", SHARES)
        written.append([file.read_bytes() for file in sorted((tmp_path / name).iterdir())])
    assert written[0] == written[1]


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
        assert list(map(len, drawn)) == [4, 4, 32]
        dev.append(drawn[0])
    assert dev[0] != dev[1], "the seed draws them"


def test_duplicate_id_error_names_both_files(tmp_path: Path) -> None:
    portions = [
        ingest_contexts(tmp_path, a="One.", b="Two."),
        ingest_contexts(tmp_path, c="Three.", b="Four."),
    ]
    with pytest.raises(UserError, match=r"'b' occurs in both a-b\.json and c-b\.json"):
        write_split(new(tmp_path / "out"), portions)


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


def test_rejects_real_files_that_share_articles(shared_data: Path, tmp_path: Path) -> None:
    portions = []
    for name in ("cs224n-test-v2.0.json", "dev-v1.1.json"):
        (tmp_path / name).symlink_to(shared_data / "squad" / name)
        portions.append(ingested(tmp_path / name))
    with pytest.raises(
        UserError, match=r"^55\d of \d+ training contexts also occur in the evaluation set"
    ):
        write_split(new(tmp_path / "out"), portions[:1], apart=Exclusions(portions[1].folder))


shares = st.builds(
    Shares, validation=st.floats(0, 0.99), dev=st.floats(0, 0.99), seed=st.integers(0)
)


@given(
    files=st.lists(st.text(), unique=True).flatmap(
        lambda names: st.lists(st.integers(0, 3), min_size=len(names), max_size=len(names)).map(
            lambda file_of: [
                [name for name, file in zip(names, file_of, strict=True) if file == number]
                for number in range(4)
            ]
        )
    ),
    shares=shares,
)
def test_every_article_is_assigned_and_train_not_empty(
    files: list[list[str]], shares: Shares
) -> None:
    articles = [text for file in files for text in file]
    counts = Counter(divide(files, shares))
    assert sum(counts.values()) == len(articles)
    assert counts["train"] >= min(1, len(articles))
    assert bool(counts["dev"]) == (shares.dev > 0 and len(articles) > 1)
    assert bool(counts["validation"]) == has_validation(len(articles), shares)
    if counts["train"] > 1:
        assert abs(counts["dev"] - shares.dev * len(articles)) <= 1
        assert abs(counts["validation"] - shares.validation * len(articles)) <= 1


def test_assignment_ignores_article_order() -> None:
    articles = [f"article {i}" for i in range(50)]
    shares = Shares(validation=0.2, dev=0.1, seed=3)
    before = dict(zip(articles, divide([articles], shares), strict=True))
    shuffled = Random(1).sample(articles, len(articles))
    assert dict(zip(shuffled, divide([shuffled], shares), strict=True)) == before


def test_adding_articles_moves_few_others() -> None:
    articles = [f"article {i}" for i in range(330)]
    shares = Shares(validation=0.1, dev=0.1, seed=3)
    old, new = divide([articles[:300]], shares), divide([articles], shares)
    moved = sum(before != after for before, after in zip(old, new[:300], strict=True))
    assert moved <= 12, "a new random draw would move about 110"


def test_assignment_depends_on_the_seed() -> None:
    articles = [f"article {i}" for i in range(20)]
    drawn = {tuple(divide([articles], Shares(dev=0.1, seed=seed))) for seed in range(20)}
    assert len(drawn) > 10


def test_equal_articles_are_in_one_part() -> None:
    files = [["first"] * 4 + ["second"] * 3, ["first"] * 2 + ["third"]]
    for seed in range(10):
        parts = divide(files, Shares(validation=0.1, dev=0.1, seed=seed))
        first, second, third = ({parts[i] for i in rows} for rows in ((0, 7), (4, 5, 6), (9,)))
        assert sorted(first | second | third) == ["dev", "train", "validation"]
        assert len(first) == len(second) == 1
    assert divide([["same"] * 10], Shares(dev=0.2)) == ["train"] * 10


def article_names(*sizes: int) -> list[list[str]]:
    return [[f"{file}-{i}" for i in range(size)] for file, size in enumerate(sizes)]


def validation_counts(files: list[list[str]], shares: Shares) -> list[int]:
    """The number of validation articles in each file."""
    parts = iter(divide(files, shares))
    return [sum(next(parts) == "validation" for _ in file) for file in files]


@pytest.mark.parametrize("seed", range(5))
def test_validation_takes_its_share_of_each_file(seed: int) -> None:
    shares = Shares(validation=0.1, seed=seed)
    assert validation_counts(article_names(720, 19), shares) == [72, 2]
    assert validation_counts(article_names(10, 120, 4), shares) == [1, 11, 1]
    assert sum(validation_counts(article_names(*[3] * 40), shares)) == 12, (
        "no more than a tenth in total"
    )
    assert validation_counts(article_names(*[3] * 40), shares).count(1) == 12, (
        "from as many files as possible"
    )
    with_dev = Shares(validation=0.1, dev=0.1, seed=seed)
    assert min(validation_counts(article_names(300, 30), with_dev)) >= 2


def test_single_article_files_divide_like_one_file() -> None:
    shares = Shares(validation=0.1, dev=0.1, seed=3)
    (articles,) = article_names(60)
    assert divide([[text] for text in articles], shares) == divide([articles], shares)


def test_adding_a_file_moves_few_articles() -> None:
    files, shares = article_names(*[10] * 30), Shares(validation=0.1, seed=3)
    before, after = divide(files[:-1], shares), divide(files, shares)
    assert sum(old != new for old, new in zip(before, after, strict=False)) <= 2
