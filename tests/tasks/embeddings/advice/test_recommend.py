"""Which way is recommended for which numbers."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.embeddings.advice.recommend import (
    LARGEST_GAIN,
    VERDICTS,
    Advice,
    WordSource,
    needed_gain,
    recommend,
)

CORPUS = WordSource("texts", "corpus", 50, 0.5, 400, 0.9, 300, 0.4, tokens=3_000_000)
SET = WordSource("own", "set", 50, 0.5, 400, 0.9, 300, 0.4)


def verdicts(*sources: WordSource) -> dict[tuple[str, str | None], str]:
    return {(a.way, a.source): a.verdict for a in recommend(sources, 1000)}


def first(*sources: WordSource) -> Advice:
    return recommend(sources, 1000)[0]


def test_set_that_covers_the_text_is_first() -> None:
    wide = replace(SET, name="wide", coverage=0.95)
    best = first(CORPUS, SET, wide)
    assert (best.way, best.verdict, best.source) == ("concatenate", "try first", "wide")
    found = verdicts(CORPUS, SET, wide)
    assert found["concatenate", "own"] == found["fill by rotation", "wide"] == "then"
    assert found["concatenate with a gate", "texts"] == "then", "a set can be trained on them"
    assert found["keep the set as it is", None] == "reference"


def test_set_is_trained_on_the_largest_corpus() -> None:
    larger = replace(CORPUS, name="larger", coverage=0.85, tokens=4_000_000)
    best = first(CORPUS, larger)
    assert (best.way, best.source) == ("concatenate", "larger")


def test_source_that_places_more_terms_fills_first() -> None:
    texts, own = replace(CORPUS, tokens=900_000), replace(SET, coverage=0.5)
    best = first(texts, replace(own, placed=0.5))
    assert (best.way, best.verdict, best.source) == ("fill by rotation", "try first", "own")
    best = first(texts, replace(own, placed=0.3))
    assert best.way == "fill a-la-carte"
    assert (
        "reaches 400 of 1,000 held-out questions" in best.reason
        and "gain 2.5 on average" in best.reason
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"reached": 20}, "gain 50.0 on average; more than 6 is not to be expected"),
        ({"reached": 0}, "in no question"),
        ({"new_words": 0, "reached": 0}, "none of the missing words"),
        ({"placed": 0.02}, "mostly noise"),
        ({"placed": None, "hidden_terms": 4}, "only 4 known terms"),
        ({"placed": None, "obstacle": "It has only 9 words."}, "on average. It has only 9 words."),
    ],
)
def test_useless_source_keeps_the_set(changes: dict[str, Any], reason: str) -> None:
    source = replace(CORPUS, tokens=900_000, **changes)
    advice = recommend([source], 1000)
    assert (advice[0].way, advice[0].verdict) == ("keep the set as it is", "try first")
    (fill,) = [a for a in advice if a.way == "fill a-la-carte"]
    assert fill.verdict == "not now" and reason in fill.reason


def test_ways_for_known_words_need_enough_text() -> None:
    found = verdicts(CORPUS, SET)
    assert found["Mittens", "texts"] == found["concatenate", "texts"] == "then"
    found = verdicts(replace(CORPUS, tokens=900_000), replace(SET, coverage=0.5))
    assert {found["Mittens", "texts"], found["concatenate", "texts"]} == {"not now"}
    assert found["concatenate", "own"] == "not now", "it covers too little"
    assert verdicts(replace(CORPUS, coverage=0.5))["concatenate", "texts"] == "not now"
    mittens = [a for a in recommend([CORPUS], 1000, has_subwords=True) if a.way == "Mittens"]
    assert [(a.verdict, "n-grams" in a.reason) for a in mittens] == [("not now", True)]


SOURCES = st.builds(
    WordSource,
    name=st.sampled_from("abc"),
    kind=st.sampled_from(["corpus", "set"]),
    new_words=st.integers(0, 5),
    share_of_missing=st.floats(0, 1),
    reached=st.integers(0, 1000),
    coverage=st.floats(0, 1),
    hidden_terms=st.integers(0, 300),
    placed=st.none() | st.floats(0, 1),
    tokens=st.integers(0, 10**7),
)


@given(st.lists(SOURCES, max_size=4))
def test_one_way_is_first_and_each_has_a_reason(sources: list[WordSource]) -> None:
    advice = recommend(sources, 1000)
    order = [VERDICTS.index(a.verdict) for a in advice]
    assert order == sorted(order) and order.count(0) == 1
    assert all(a.reason.endswith(".") for a in advice)
    best = next((s for s in sources if s.name == advice[0].source), None)
    if best is not None and advice[0].way.startswith("fill"):
        assert min(needed_gain(s, 1000) for s in sources) <= LARGEST_GAIN
