"""Exact match, F1 and AvNA of answer texts, by the official SQuAD rules, and by that of MLQA."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from models.scripts import UNSPACED

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_UNSPACED = re.compile(f"([{UNSPACED}])")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


class QuestionScore(NamedTuple):
    """One question's scores: `em` and `avna` are 0 or 1, `f1` lies in 0..1."""

    em: int
    f1: float
    avna: int


@dataclass(frozen=True)
class Scores:
    """Means over `count` questions, as percentages (0..100)."""

    em: float
    f1: float
    avna: float
    count: int


@lru_cache(maxsize=1 << 17)
def normalize_answer(text: str) -> str:
    """Lower-cases, drops ASCII punctuation, then articles, then surplus white space.

    Order and character sets are the official ones: dashes and quotes outside ASCII stay, and
    punctuation is removed before articles, so "l'a" becomes "la". Source: Rajpurkar et al. 2016,
    section 6.1.
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def in_units(text: str) -> str:
    """The text without Unicode's punctuation, and with a space around each character of a script
    without spaces between words.

    The official rules compare such texts by characters where the script has no spaces, as the
    scripts of MLQA (Lewis et al. 2020) and CMRC 2018 (Cui et al. 2019) do. The latter also asks for
    the characters' order.
    """
    kept = (character for character in text if unicodedata.category(character)[0] != "P")
    return _UNSPACED.sub(r" \1 ", "".join(kept))


def exact_match(prediction: str, golds: Sequence[str], *, v2: bool = False) -> int:
    """1 if the prediction equals one of the gold answers after normalisation, else 0.

    `v2` selects one of the two official rules, which differ if a text normalises to nothing:

    - v1.1 (`False`) compares with every gold answer and needs at least one gold answer.
    - v2.0 (`True`) ignores golds that normalise to nothing. If none is left (an unanswerable
      question has none to begin with), the only gold is the empty text.

    Raises ValueError for a question without golds under the v1.1 rule.
    """
    return int(normalize_answer(prediction) in _normal_golds(golds, v2))


def f1(prediction: str, golds: Sequence[str], *, v2: bool = False) -> float:
    """Harmonic mean of precision and recall over words (with repeats), best of the golds, 0..1.

    `v2` as in `exact_match`. In addition, v1.1 gives 0 whenever no word is shared, and therefore
    also if both sides are empty; v2.0 gives 1 if both sides are empty. Raises as `exact_match`
    does.
    """
    normal = normalize_answer(prediction)
    return max(_overlap(normal, gold, v2) for gold in _normal_golds(golds, v2))


def answer_versus_none(prediction: str, answerable: bool) -> int:
    """1 if the prediction is right about whether the question has an answer at all, else 0.

    Uses the raw text, as CS224n's AvNA does: a prediction such as "the" is an answer.
    """
    return int(bool(prediction) == answerable)


def score_questions(
    predictions: Sequence[str],
    golds: Sequence[Sequence[str]],
    answerable: Iterable[bool] | None = None,
    *,
    v2: bool = False,
    by_units: Iterable[bool] | None = None,
) -> list[QuestionScore]:
    """Scores each question by the rule that `v2` selects (see `exact_match`), in the given order.

    An empty prediction means "no answer". `answerable` says whether each question has an answer; by
    default, those with a gold that is not empty have one. EM and F1 are 0 for any prediction if the
    answer is unknown, which the official rules do not provide for: the question is answerable, but
    has no golds. `by_units` says which questions' texts are compared `in_units`; by default none.

    Raises ValueError if the lengths of the arguments differ.
    """
    flags = map(any, golds) if answerable is None else answerable
    units_flags = [False] * len(predictions) if by_units is None else by_units
    return [
        _score(text, answers, flag, v2, units)
        for text, answers, flag, units in zip(predictions, golds, flags, units_flags, strict=True)
    ]


def _score(
    prediction: str, golds: Sequence[str], answerable: bool, v2: bool, by_units: bool
) -> QuestionScore:
    avna = answer_versus_none(prediction, answerable)
    if by_units:
        prediction, golds = in_units(prediction), list(map(in_units, golds))
    if answerable and not golds:
        return QuestionScore(0, 0.0, avna)
    return QuestionScore(exact_match(prediction, golds, v2=v2), f1(prediction, golds, v2=v2), avna)


def mean_scores(questions: Iterable[QuestionScore]) -> Scores:
    """Averages question scores to percentages; raises ValueError if there are none."""
    rows = list(questions)
    if not rows:
        raise ValueError("there are no questions to average over")
    em, f1_, avna = (100 * sum(column) / len(rows) for column in zip(*rows, strict=True))
    return Scores(em, f1_, avna, len(rows))


def _normal_golds(golds: Sequence[str], v2: bool) -> list[str]:
    normal = [normalize_answer(gold) for gold in golds]
    if v2:
        return [gold for gold in normal if gold] or [""]
    if not normal:
        raise ValueError(
            "the v1.1 rule needs at least one gold answer; use v2=True for unanswerable questions"
        )
    return normal


def _overlap(prediction: str, gold: str, v2: bool) -> float:
    if not prediction or not gold:
        return float(v2 and prediction == gold)
    if prediction == gold:
        return 1.0
    predicted, wanted = prediction.split(), gold.split()
    shared = sum((Counter(predicted) & Counter(wanted)).values())
    return 2 * shared / (len(predicted) + len(wanted))
