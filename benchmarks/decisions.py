"""Simulates decisions about equal models: how often one is starred, or replaces the champion.

Usage: python -m benchmarks.decisions OUT_FOLDER [--years N]
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.common.tables import write_table
from models.arrays import BoolArray, FloatArray
from tasks.evaluation.promotion_rule import PromotionRule, decide
from tasks.evaluation.significance import SIGNIFICANT, t_test
from tasks.evaluation.validation_parts import STOPPING_SHARE

# Standard deviations in F1: between the seeds of a variant, and of their answers to a question.
SEED_SPREAD, QUESTION_SPREAD = 0.8, 20.0
ARTICLES, QUESTIONS = 40, 200  # of the comparison's dev set, and in each of its articles
# Of models in an article, and of the epochs of one training in it.
ARTICLE_SPREAD, EPOCH_SPREAD = 4.0, 4.0
EPOCHS, WEEKS = 10, 52
Z = 1.96  # the normal quantile of 95 %


def starred(seeds: int, comparisons: int = 2_000) -> tuple[float, float]:
    """The shares of comparisons of a variant with itself that are significant: by the normal
    quantile, and by Student's."""
    random = np.random.default_rng(0)
    articles = np.repeat(np.arange(ARTICLES), QUESTIONS)

    def side() -> FloatArray:
        noise = random.standard_normal((seeds, len(articles)), np.float32)
        return random.normal(60, SEED_SPREAD, (seeds, 1)) + QUESTION_SPREAD * noise

    tested = [t_test(side(), side(), articles) for _ in range(comparisons)]
    students = np.array([p < SIGNIFICANT for _, p in tested])
    normal = np.array(
        [abs(gain.mean) > Z * error_of(gain.high - gain.mean, seeds) for gain, _ in tested]
    )
    return float(normal.mean()), float(students.mean())


def error_of(margin: float, seeds: int) -> float:
    """The standard error of an interval with this margin."""
    from scipy.special import stdtrit

    return margin / float(stdtrit(2 * (seeds - 1), 0.975))


def train(random: np.random.Generator, stopping: BoolArray) -> FloatArray:
    """The F1 (0 to 1) of a model in each article of validation, at the epoch that is the best one
    on the articles in `stopping`; with none of them, at the last epoch. All models are equal."""
    articles = len(stopping)
    model = 60 + random.normal(0, ARTICLE_SPREAD, articles)
    epochs = model + random.normal(0, EPOCH_SPREAD, (EPOCHS, articles))
    best = epochs[:, stopping].mean(axis=1).argmax() if stopping.any() else EPOCHS - 1
    f1: FloatArray = epochs[best] / 100
    return f1


def changes_in_a_year(seed: int, stopping: BoolArray, deciding: BoolArray, new: float) -> int:
    """How often the champion changes in 52 weekly retrainings of equal models, if each week a share
    of validation's articles is `new`, and others are gone."""
    random = np.random.default_rng(seed)
    champion, changes = train(random, stopping), 0
    article_of = np.arange(deciding.sum())
    for _ in range(WEEKS):
        is_new = random.permutation(len(stopping)) < round(new * len(stopping))
        champion = np.where(is_new, train(random, np.zeros_like(stopping)), champion)
        challenger = train(random, stopping)
        models = champion[deciding], challenger[deciding]
        if decide(*models, article_of, article_of, {}, PromotionRule()).promoted:
            champion, changes = challenger, changes + 1
    return changes


def weekly_row(
    rule: str, articles: int, new: float, years: int, share: float, divided: bool
) -> dict[str, str]:
    """A row: `share` of validation's articles choose the epoch; if `divided`, the others decide,
    else all do."""
    stopping = np.arange(articles) < round(share * articles)
    deciding = ~stopping if divided else np.ones(articles, dtype=bool)
    row = {
        "articles": str(articles),
        "new each week": f"{new:.0%}",
        "rule": rule,
        "deciding": str(deciding.sum()),
    }
    changes = np.array([changes_in_a_year(year, stopping, deciding, new) for year in range(years)])
    return {
        **row,
        "changes a year": f"{changes.mean():.1f}",
        "years with more than 3": f"{np.mean(changes > 3):.0%}",
    }


def main() -> None:
    """Write both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--years", type=int, default=20)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    levels = {seeds: starred(seeds) for seeds in (2, 3, 5)}
    write_table(
        arguments.out,
        "seeds",
        "benchmarks.decisions",
        [
            {"seeds": str(seeds), "normal quantile": f"{normal:.1%}", "Student's": f"{student:.1%}"}
            for seeds, (normal, student) in levels.items()
        ],
    )
    rules = {
        "all stop, all decide": (1.0, False),
        "a third stops, the others decide": (STOPPING_SHARE, True),
        "none stop, all decide": (0.0, False),
    }
    write_table(
        arguments.out,
        "weekly",
        "benchmarks.decisions",
        [
            weekly_row(rule, articles, new, arguments.years, *parts)
            for articles in (15, 45)
            for new in (0.0, 0.1, 1.0)
            for rule, parts in rules.items()
        ],
    )


if __name__ == "__main__":
    main()
