"""F1 over the share of the training data, and what more data would bring.

Usage: python -m benchmarks.studies.data_share OUT_FOLDER TRAIN.json DEV.json --full QUESTIONS
       [--variant char] --training.epochs 6 …

Trains the variant (`bidaflow train` with these flags) on 25, 50, 75 and 100 % of the articles of
TRAIN.json. A smaller share is part of each larger one. Contexts of DEV.json are left out of
training, unless --data.overlap is given. F1 on SQuAD 2.0 is at the no-answer threshold that
validation chose (see --training.expected-no-answer).

Fits the power law 100 − F1 = a·n^(−b) to F1 over the number n of questions trained on (Hestness et
al., 2017, "Deep learning scaling is predictable, empirically"), and extrapolates it to a file of
QUESTIONS questions. Of these, it takes the part that was trained on of TRAIN.json, without
validation and questions that are skipped. The interval resamples the dev articles; one training
for each share says nothing about the variation between seeds. Another fit, to the smaller shares
alone, shows how well such a curve predicts the F1 of the largest share.

After each training, OUT_FOLDER gets data-share.json and .md, a Parquet file with the answers (see
`benchmarks.trainings.answers`), and, from the second training on, the curve, data-share.png. A
rerun with the same files and flags, on any machine, trains only what OUT_FOLDER has no answers of.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.common.arguments import existing_file
from benchmarks.common.figures import save
from benchmarks.common.tables import write_table
from benchmarks.race import train
from benchmarks.trainings.answered import Answered, Scores, read_answers
from benchmarks.trainings.answers import read_facts, write_answers
from benchmarks.trainings.trained import Trained
from infra.artifacts.manifest import facts_of, hash_file
from infra.atomic_files import atomic_file
from infra.settings import settings
from models.arrays import FloatArray
from tasks.data.ingested import hash_uniform
from tasks.evaluation.bootstrap import enlargement, means_of_drawn, sums_by_group
from tasks.evaluation.significance import bootstrap

PERCENTS = (25, 50, 75, 100)
SAMPLES = 1000
SEED = 7


@dataclass(frozen=True)
class Point:
    """A training on a share of the articles."""

    percent: int
    articles: int
    available: int  # questions of these articles
    questions: int  # trained on
    answered: Answered  # the dev questions
    threshold: float  # the no-answer threshold; infinity: a span for each question

    @cached_property
    def scores(self) -> Scores:
        """The scores of the dev questions at the threshold."""
        return self.answered.at(self.threshold)

    @property
    def row(self) -> dict[str, str]:
        """The row of the table."""
        interval = bootstrap(self.scores.f1[None], group_of=self.answered.article)
        spans = 100 * self.answered.span_f1[self.answered.answerable].mean()
        row = {
            "articles": f"{self.percent} % ({self.articles:,})",
            "questions": f"{self.questions:,}",
            "F1": f"{interval.mean:.2f}",
            "F1, 95 %": f"{interval.low:.2f} to {interval.high:.2f}",
        }
        if self.answered.auc is not None:
            row |= {"AvNA": f"{self.scores.avna.mean():.2f}", "AUC": f"{self.answered.auc:.3f}"}
        return row | {"F1 of spans, answerable": f"{spans:.2f}"}


@dataclass(frozen=True)
class Share:
    """A share of the articles, as a file."""

    file: Path
    percent: int
    articles: int
    questions: int


def write_share(train_file: Path, percent: int) -> Share:
    """Write that share of the articles below the storage root.

    Articles are drawn by a hash of title and first context, because articles may share a title.
    They keep their order.
    """
    try:
        content = json.loads(train_file.read_text(encoding="utf-8"))
        articles = content["data"]
        keys = [f"{a['title']}\n{a['paragraphs'][0]['context']}" for a in articles]
        order = sorted(range(len(articles)), key=lambda row: hash_uniform("share", SEED, keys[row]))
        drawn = sorted(order[: round(len(order) * percent / 100)])
        content["data"] = [articles[row] for row in drawn]
        questions = sum(len(p["qas"]) for article in content["data"] for p in article["paragraphs"])
    except (ValueError, LookupError, TypeError):
        sys.exit(f"{train_file} is not in SQuAD format. See bidaflow check {train_file}")
    file = settings().root.resolve() / "data-share" / f"{train_file.stem}-{percent}.json"
    with atomic_file(file) as out:
        out.write(json.dumps(content, ensure_ascii=False).encode())
    return Share(file, percent, len(drawn), questions)


def training_flags(variant: str, others: Sequence[str]) -> list[str]:
    """The flags of `bidaflow train`; unless they set the overlap, contexts of dev are left out."""
    names = [flag.partition("=")[0] for flag in others]
    overlap = [] if "--data.overlap" in names else ["--data.overlap", "leave out"]
    return ["--variants", variant, *overlap, *others]


def run(train_file: Path, dev_file: Path, percent: int, flags: Sequence[str], out: Path) -> Point:
    """Train on a share of the articles, unless its answers are there, and read the answers."""
    share = write_share(train_file, percent)
    files = {"train": hash_file(share.file), "dev": hash_file(dev_file)}
    asked = {**files, "flags": list(flags)}
    answers = out / f"{percent}-percent.parquet"
    if not answers_to(answers, asked):
        name = ["--data.dataset", f"{train_file.stem}-{percent}"]
        data = ["--data.train-files", str(share.file), "--data.dev-files", str(dev_file)]
        (trained,) = train([*name, *data, *flags])
        facts = facts_of(trained)
        questions = facts["trained_on"]
        threshold = facts["threshold"]
        write_answers(answers, Trained(trained), threshold, asked=asked, trained_on=questions)
    return read_point(share, answers)


def answers_to(file: Path, asked: dict[str, Any]) -> bool:
    """Whether a file has the answers of a training of these files and flags."""
    return file.is_file() and read_facts(file).get("asked") == asked


def read_point(share: Share, file: Path) -> Point:
    """A training whose answers are in a file."""
    answered = read_answers(file)
    threshold = answered.facts["threshold"]
    return Point(
        share.percent,
        share.articles,
        share.questions,
        answered.facts["trained_on"],
        answered,
        math.inf if threshold is None else threshold,
    )


def fit(questions: Sequence[int], f1: FloatArray) -> FloatArray:
    """(intercept, slope) of log(100 − F1) over log(questions), by least squares."""
    slope, intercept = np.polyfit(np.log(questions), np.log(100 - f1), 1)
    return np.array([intercept, slope])


def predicted(curve: FloatArray, questions: FloatArray | float) -> FloatArray:
    """F1, percent, at numbers of questions."""
    return np.asarray(100 - np.exp(curve[0] + curve[1] * np.log(questions)))


def extrapolate(points: Sequence[Point], questions: int) -> dict[str, Any]:
    """F1 at a number of questions with its 95 % interval, and the check by the smaller shares."""
    sizes = [point.questions for point in points]
    f1 = np.array([point.scores.f1 for point in points])
    observed = f1.mean(axis=1)
    sums, of_articles = sums_by_group(f1, points[0].answered.article)
    wider = enlargement(len(of_articles))
    samples = [
        predicted(fit(sizes, observed + wider * (drawn - observed)), questions)
        for drawn in means_of_drawn(sums, of_articles, SAMPLES, np.random.default_rng(0))
    ]
    curve = fit(sizes, observed)
    result: dict[str, Any] = {
        "exponent": float(-curve[1]),
        "questions": questions,
        "f1": float(predicted(curve, questions)),
        "f1_95_percent": [float(bound) for bound in np.percentile(samples, [2.5, 97.5])],
    }
    if len(points) > 2:
        smaller = fit(sizes[:-1], f1[:-1].mean(1))
        result["largest_share"] = {
            "f1": float(f1[-1].mean()),
            "f1_predicted_by_smaller_shares": float(predicted(smaller, sizes[-1])),
        }
    return result


def draw(points: Sequence[Point], questions: int, file: Path) -> None:
    """Draw F1 over the number of questions, and the fitted curve."""
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    sizes = [point.questions for point in points]
    means = np.array([point.scores.f1.mean() for point in points])
    x = np.geomspace(min(sizes), questions, 100)
    axes.plot(x, predicted(fit(sizes, means), x), "--", label="power law")
    axes.plot(sizes, means, "o", label="trained")
    axes.set(xlabel="questions to train on", ylabel="F1 on dev, %")
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, file)


def trained_part(point: Point, questions: int) -> int:
    """The questions to train on of a file with this number, by the part of a finished training."""
    return round(questions * point.questions / point.available)


def write(out: Path, points: Sequence[Point], full: int) -> None:
    """Write the results so far, extrapolated to a file of `full` questions."""
    facts: dict[str, Any] = {
        "full": full,
        "intervals": "over the dev articles; one training for each share",
    }
    if len(points) > 1:
        questions = trained_part(points[-1], full)
        facts["extrapolated"] = extrapolate(points, questions)
        draw(points, questions, out / "data-share.png")
    rows = [point.row for point in points]
    write_table(out, "data-share", "benchmarks.studies.data_share", rows, **facts)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT_FOLDER")
    parser.add_argument("train", type=existing_file, metavar="TRAIN.json")
    parser.add_argument("dev", type=existing_file, metavar="DEV.json")
    parser.add_argument(
        "--full",
        type=int,
        required=True,
        metavar="QUESTIONS",
        help="questions of the file to extrapolate to, with those that validation will hold out "
        "(SQuAD 2.0: 130319)",
    )
    parser.add_argument("--variant", default="char")
    arguments, others = parser.parse_known_args()
    if any(flag.partition("=")[0] == "--variants" for flag in others):
        parser.error("use --variant: the curve is about one variant")
    flags = training_flags(arguments.variant, others)
    arguments.out.mkdir(parents=True, exist_ok=True)
    points: list[Point] = []
    for percent in PERCENTS:
        points.append(run(arguments.train, arguments.dev, percent, flags, arguments.out))
        write(arguments.out, points, arguments.full)


if __name__ == "__main__":
    main()
