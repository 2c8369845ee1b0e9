"""All kinds of negatives, made from articles of random sentences."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count, takewhile
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.errors import UserError
from infra.settings import CHECKOUT
from tasks.data.ingested import Contexts, Portion, normalized, questions_with_ledger
from tasks.data.negatives import SIGNS, NegativeSampler, NegativeShares, negative_kind
from tasks.data.splits import write_split
from tasks.text.tokenizer import tokenize
from tests.factories.split_files import ingested, new, rows, write

ALL = NegativeShares(paragraph=1, nearest=1, swap=1)

SUBJECTS = ["Ada Moss", "Eve Hill", "The crew", "A storm", "U.S. ships"]
VERBS = ["opened", "painted", "left", "sold", "measured"]
OBJECTS = ["the mill", "an organ", "the bridge", "some boats"]
PLACES = ["in Lima", "in Quito", "near Cusco", "in New York", "in the U.S."]
TIMES = ["in 1921", "in May 1948", "in June 1307", "on July 4", "for 12 weeks", "for 30 weeks"]


@st.composite
def articles(draw: st.DrawFn) -> dict[str, Any]:
    """SQuAD-format data: sentences of a few words, and questions about one of each context."""
    ids = count()

    def paragraph() -> dict[str, Any]:
        chosen = draw(st.lists(st.tuples(*map(st.sampled_from, PARTS)), min_size=1, max_size=5))
        context = " ".join(f"{' '.join(parts)}." for parts in chosen)
        subject, verb, thing, place, time = draw(st.sampled_from(chosen))
        start = context.index(f"{subject} {verb} {thing} {place} {time}")
        answers = [{"text": subject, "answer_start": start}]
        question = f"Who {verb} {thing} {place} {time}?"
        qas = [{"id": f"q{next(ids)}", "question": question, "answers": answers}]
        return {"context": context, "qas": qas}

    data = [
        {"title": title, "paragraphs": [paragraph() for _ in range(draw(st.integers(1, 4)))]}
        for title in draw(st.lists(st.sampled_from(["Lima", "Mills", ""]), min_size=1, max_size=3))
    ]
    return {"data": data}


PARTS = (SUBJECTS, VERBS, OBJECTS, PLACES, TIMES)

Rows = list[dict[str, Any]]


def sample(portion: Portion, shares: NegativeShares, seed: int = 1) -> Rows:
    """The negatives of a portion, each with its ledger row."""
    sampler = NegativeSampler(Contexts(portion), shares, seed)
    return [
        {**question, "ledger": row, "made_as": kind}
        for batch in questions_with_ledger(portion.folder)
        for kind, questions, ledger in sampler.sample(*batch)
        for question, row in zip(questions.to_pylist(), ledger.to_pylist(), strict=True)
    ]


def in_folder(data: dict[str, Any], check: Callable[[Portion], None]) -> None:
    """Call `check` with the ingested data."""
    with TemporaryDirectory() as folder:
        check(ingested(write(Path(folder) / "data.json", data)))


def tokens(text: str) -> list[str]:
    return [text[start:end] for start, end in tokenize(text)]


def equal_tokens(one: list[str], other: list[str]) -> int:
    """How many tokens two lists have in common before the first difference."""
    pairs = zip(one, other, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def check_negative(
    negative: dict[str, Any], source: dict[str, Any], contexts: Mapping[int, dict[str, Any]]
) -> None:
    """Check the properties of a negative's kind."""
    assert negative["is_impossible"] and negative["answers"] == []
    assert (negative["span_start"], negative["span_end"]) == (-1, -1)
    own, other = contexts[source["context_id"]], contexts[negative["context_id"]]
    assert own["article"] == other["article"]
    if negative["made_as"] == "swap":
        assert own == other
        check_swap(negative, source, own["text"])
    else:
        assert negative["question"] == source["question"]
        for answer in source["answers"]:
            assert normalized(answer["text"]) not in normalized(other["text"])


def check_swap(negative: dict[str, Any], source: dict[str, Any], context: str) -> None:
    """Check that one span of tokens differs, and comes from another sentence of the context."""
    new, old = tokens(negative["question"]), tokens(source["question"])
    before = equal_tokens(new, old)
    after = equal_tokens(new[before:][::-1], old[before:][::-1])
    changed, removed = (words[before : len(words) - after] for words in (new, old))
    assert changed and removed
    places = range(len(tokens(context)))
    assert any(tokens(context)[i : i + len(changed)] == changed for i in places)
    used = {word.casefold() for answer in source["answers"] for word in tokens(answer["text"])}
    assert not used & {word.casefold() for word in changed}
    offsets = zip(negative["token_starts"], negative["token_ends"], strict=True)
    assert [negative["question"][start:end] for start, end in offsets] == new
    text = negative["ledger"]["reason"]
    assert all(" ".join(words) in text for words in (changed, removed) if len(words) == 1)


@settings(max_examples=25)
@given(articles())
def test_negatives_are_of_their_kind(data: dict[str, Any]) -> None:
    def check(portion: Portion) -> None:
        contexts = {row["context_id"]: row for row in rows(portion.folder, "contexts")}
        sources = {row["id"]: row for row in rows(portion.folder, "questions")}
        made = sample(portion, ALL)
        assert len({row["id"] for row in made}) == len(made)
        for negative in made:
            assert negative_kind(negative["id"]) == negative["made_as"]
            assert negative["ledger"]["id"] == negative["id"]
            assert negative["ledger"]["outcome"] == "impossible"
            check_negative(negative, sources[negative["id"][:-1]], contexts)
        assert sample(portion, ALL) == made
        kinds = Counter(row["made_as"] for row in made)
        assert kinds["nearest"] == kinds["paragraph"], "any suitable paragraph serves both"

    in_folder(data, check)


@settings(max_examples=15)
@given(articles(), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_kinds_are_drawn_independently(
    data: dict[str, Any], paragraph: float, nearest: float, swap: float
) -> None:
    """The negatives of a kind depend on its own share only, and grow with it."""

    def check(portion: Portion) -> None:
        shares = {"paragraph": paragraph, "nearest": nearest, "swap": swap}
        made = sample(portion, NegativeShares(**shares))
        alone = [
            row for n, s in shares.items() for row in sample(portion, NegativeShares(**{n: s}))
        ]
        by_id = itemgetter("id")
        assert sorted(made, key=by_id) == sorted(alone, key=by_id)
        everything = sample(portion, ALL)
        assert all(row in everything for row in made)

    in_folder(data, check)


SQUARES = "The old square has a fountain."
TOWN = {
    "title": "Town",
    "paragraphs": [
        {
            "context": f"{SQUARES} Ada built the mill.",
            "qas": [
                {
                    "id": "q",
                    "question": "Who built the mill near the river?",
                    "answers": [{"text": "Ada", "answer_start": len(SQUARES) + 1}],
                }
            ],
        },
        {"context": "A road leads to the hills.", "qas": []},
        {"context": "The mill near the river closed, said Ada.", "qas": []},
        {"context": "The mill near the river burnt down.", "qas": []},
        {"context": "The river is wide.", "qas": []},
    ],
}


def test_nearest_is_most_similar_without_answer(tmp_path: Path) -> None:
    portion = ingested(write(tmp_path / "town.json", {"data": [TOWN]}))
    (negative,) = sample(portion, NegativeShares(nearest=1))
    assert negative["context_id"] == 3
    assert negative["id"] == "q≈"
    reason = "asked about the most similar other paragraph of its article"
    assert negative["ledger"]["reason"] == reason


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("nearest", r"^data\.negatives_nearest is 1, .* Set data\.negatives_nearest to 0, or add "),
        ("swap", r"^data\.negatives_swap is 1, but .* replace\. Set data\.negatives_swap to 0\.$"),
    ],
)
def test_explains_why_a_kind_can_not_be_made(tmp_path: Path, kind: str, message: str) -> None:
    town = {**TOWN, "paragraphs": TOWN["paragraphs"][:1]}
    one = ingested(write(tmp_path / "one.json", {"data": [town]}))
    with pytest.raises(UserError, match=message):
        write_split(new(tmp_path / "out"), [one], negatives=NegativeShares(**{kind: 1.0}))


def test_statistics_count_each_kind(shared_data: Path, tmp_path: Path) -> None:
    """On SQuAD, nearly every question gets the first two kinds, and some get a swap."""
    (tmp_path / "dev.json").symlink_to(shared_data / "squad" / "cs224n-dev-v2.0.json")
    portion = ingested(tmp_path / "dev.json")
    shares = NegativeShares(paragraph=0.3, nearest=0.2, swap=1)
    facts = write_split(new(tmp_path / "out"), [portion], negatives=shares)
    kinds = Counter(negative_kind(row["id"]) for row in rows(tmp_path / "out", "questions"))
    assert {f"negatives_{kind}": kinds[kind] for kind in SIGNS} == {
        name: count for name, count in facts.items() if name.startswith("negatives_")
    }
    assert facts["negatives"] == sum(kinds[kind] for kind in SIGNS)
    assert facts["questions"] == kinds.total()
    assert kinds["paragraph"] == pytest.approx(0.3 * facts["answerable"], rel=0.1)
    assert kinds["nearest"] == pytest.approx(0.2 * facts["answerable"], rel=0.1)
    assert 0.02 * facts["answerable"] < kinds["swap"] < 0.1 * facts["answerable"]


DIGEST = """
import sys
from hashlib import sha256
from pathlib import Path
from tasks.data.ingested import Portion
from tests.properties.test_negative_kinds import ALL, sample

made = sample(Portion(Path(sys.argv[1]), "data"), ALL)
kinds = [negative["made_as"] for negative in made]
print(kinds.count("swap"), sha256(repr(made).encode()).hexdigest())
"""


@pytest.mark.heavy
@pytest.mark.full
def test_all_processes_make_the_same_negatives(shared_data: Path, tmp_path: Path) -> None:
    """The order of sets of strings, which differs between processes, has no influence."""
    file = shared_data / "squad" / "cs224n-dev-v2.0.json"
    articles = json.loads(file.read_text(encoding="utf-8"))["data"][:3]
    portion = ingested(write(tmp_path / "data.json", {"data": articles}))
    outputs = {
        subprocess.run(
            [sys.executable, "-c", DIGEST, str(portion.folder)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    (output,) = outputs
    assert int(output.split()[0]) > 5
