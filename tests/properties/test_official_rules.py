"""Scores of stored predictions match a plain reimplementation of the official rules, and recorded
numbers.

The rules are those of SQuAD's evaluate-v1.1.py and evaluate-v2.0.py; no code of theirs is copied.
"""

import json
import string
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.span_decoding import Predictions
from models.squad_metrics import score_questions
from tasks.data.ingest import ingest_articles
from tasks.data.readers import read_articles
from tasks.evaluation.evaluate import EvaluationSplit, evaluate, load_split, write_predictions


def words(text: str) -> list[str]:
    """The words of a text: in lower case, without ASCII punctuation, then without articles.

    White space separates the words. Only a whole run of letters, digits and underscores can be an
    article.
    """
    kept = [c for c in text.lower() if c not in string.punctuation]
    runs = groupby(kept, key=lambda c: c.isalnum() or c == "_")
    parts = ["".join(run) for _, run in runs]
    return "".join(" " if part in ("a", "an", "the") else part for part in parts).split()


def overlap(one: list[str], other: list[str]) -> float:
    left, shared = list(other), 0
    for word in one:
        if word in left:
            left.remove(word)
            shared += 1
    if shared == 0:
        return 0.0
    precision, recall = shared / len(one), shared / len(other)
    return 2 * precision * recall / (precision + recall)


def v1_rule(answer: str, golds: list[str]) -> tuple[float, float]:
    """EM and F1 of one question by SQuAD 1.1."""
    predicted = words(answer)
    return (
        max(float(predicted == words(gold)) for gold in golds),
        max(overlap(predicted, words(gold)) for gold in golds),
    )


def v2_rule(answer: str, golds: list[str]) -> tuple[float, float]:
    """EM and F1 of one question by SQuAD 2.0.

    Gold answers without words are ignored. If none is left, the right answer is no answer. If the
    prediction or the gold answer is empty, F1 is 1 if both are, else 0.
    """
    predicted = words(answer)
    targets = [words(gold) for gold in golds if words(gold)] or [[]]
    exact = max(float(predicted == gold) for gold in targets)
    if not predicted:
        return exact, exact
    return exact, max(overlap(predicted, gold) for gold in targets)


PIECES = st.sampled_from(
    [
        *("the", "a", "An", "THE", "theatre", "and", "cat", "Éa", "naïve", "İstanbul", "straße"),
        *(" ", "  ", "\u00a0", "\t", "\u3000", "-", "–", "'", "’", ".", ",", "$", "£", "%", "_"),
        *("a\u0301", "元朝", "القاهرة", "👩\u200d🔬", "ﬁ", "½", "x²", "\u200b"),
    ]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=6).map("".join), st.text(max_size=8))


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_scores_match_the_official_rules(answer: str, golds: list[str]) -> None:
    (score,) = score_questions([answer], [golds], v2=True)
    assert (score.em, score.f1) == pytest.approx(v2_rule(answer, golds))
    if golds:
        (score,) = score_questions([answer], [golds], v2=False)
        assert (score.em, score.f1) == pytest.approx(v1_rule(answer, golds))


def neighbours_of_gold(split: EvaluationSplit) -> Predictions:
    """Predictions of six kinds: the gold span, one with an extra word before it, one with an extra
    word after it, the first word, two words from the middle, and no answer."""
    last = split.context_lengths[split.context_of] - 1
    start, end = np.maximum(split.span_start, 0), np.maximum(split.span_end, 0)
    middle, kind = last // 2, np.arange(len(split)) % 6
    first = [start, np.maximum(start - 1, 0), start, 0 * start, middle, 0 * start - 1]
    final = [end, end, np.minimum(end + 1, last), 0 * start, np.minimum(middle + 1, last)]
    final.append(0 * start - 1)
    confidence = np.zeros(len(split))
    return Predictions(np.choose(kind, first), np.choose(kind, final), confidence, confidence - 1.0)


def annotated(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the id and the annotated answers of each question in the file."""
    for article in json.loads(file.read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                yield question["id"], [answer["text"] for answer in question["answers"]]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "rule", "em", "f1"),
    [
        pytest.param("dev-v1.1", v1_rule, 32.4503, 47.0189, marks=pytest.mark.full),
        ("dev-v2.0", v2_rule, 31.6769, 38.6820),
    ],
)
def test_stored_predictions_match_official_scores(
    shared_data: Path, tmp_path: Path, name: str, rule: Any, em: float, f1: float
) -> None:
    file = shared_data / "squad" / f"{name}.json"
    ingest_articles(read_articles(file), tmp_path)
    split = load_split(tmp_path)
    evaluation = evaluate(split, neighbours_of_gold(split))
    write_predictions(tmp_path / "predictions.parquet", split, evaluation)
    table: Any = pq.read_table(tmp_path / "predictions.parquet")
    stored = dict(zip(table["id"].to_pylist(), table["prediction"].to_pylist(), strict=True))
    texts = stored.values()
    assert sum(not text.isascii() for text in texts) > 100
    assert sum(text.lower().startswith(("the ", "a ", "an ")) for text in texts) > 500
    scores = [rule(stored[id_], golds) for id_, golds in annotated(file)]
    assert len(scores) == len(stored) == evaluation.scores.count
    expected = [100 * sum(column) / len(scores) for column in zip(*scores, strict=True)]
    assert (evaluation.scores.em, evaluation.scores.f1) == pytest.approx(expected)
    assert expected == pytest.approx([em, f1], abs=5e-5)
