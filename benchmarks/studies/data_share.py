"""F1 over the share of the training data, and what more data would bring.

Usage: python -m benchmarks.studies.data_share OUT_FOLDER TRAIN.json DEV.json --full QUESTIONS
       [--variant char] --training.epochs 6 …

Trains the variant (`bidaflow train` with these flags) on 25, 50, 75 and 100 % of the articles of
TRAIN.json. A smaller share is part of each larger one. A rerun trains only what is missing.

Fits the power law 100 − F1 = a·n^(−b) to F1 over the number n of training questions (Hestness et
al., 2017, "Deep learning scaling is predictable, empirically"), and extrapolates it to QUESTIONS.
The interval resamples the dev questions. Another fit, to the smaller shares alone, shows how well
such a curve predicts the F1 of the largest share.

After each training, OUT_FOLDER gets data-share.json and .md, a Parquet file with the answers (see
`benchmarks.common.answers`), and, from the second training on, the curve, data-share.png.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

from benchmarks.common.answers import write_answers
from benchmarks.common.figures import save
from benchmarks.common.significance import bootstrap
from benchmarks.common.tables import write_table
from benchmarks.race import train
from infra.artifacts.manifest import facts_of
from infra.atomic_files import atomic_file
from infra.settings import settings
from models.arrays import FloatArray
from tasks.data.ingested import hash_uniform

PERCENTS = (25, 50, 75, 100)
SAMPLES = 1000
SEED = 7


@dataclass(frozen=True)
class Point:
    """A training on a share of the articles."""

    percent: int
    articles: int
    questions: int  # trained on
    f1: FloatArray  # (n,) of each dev question, percent

    @property
    def row(self) -> dict[str, str]:
        """The row of the table."""
        interval = bootstrap(self.f1[None])
        return {
            "articles": f"{self.percent} % ({self.articles:,})",
            "questions": f"{self.questions:,}",
            "F1": f"{interval.mean:.2f}",
            "F1, 95 %": f"{interval.low:.2f} to {interval.high:.2f}",
        }


def write_share(train_file: Path, percent: int) -> tuple[Path, int]:
    """Write that share of the articles below the storage root; returns the file and their number.

    Articles are drawn by a hash of their titles, and keep their order.
    """
    try:
        content = json.loads(train_file.read_text(encoding="utf-8"))
        articles = content["data"]
        titles = {article["title"] for article in articles}
    except (ValueError, LookupError, TypeError):
        sys.exit(f"{train_file} is not in SQuAD format. See bidaflow check {train_file}")
    order = sorted(titles, key=lambda title: hash_uniform("share", SEED, title))
    drawn = set(order[: round(len(order) * percent / 100)])
    content["data"] = [article for article in articles if article["title"] in drawn]
    file = settings().root.resolve() / "data-share" / f"{train_file.stem}-{percent}.json"
    with atomic_file(file) as out:
        out.write(json.dumps(content, ensure_ascii=False).encode())
    return file, len(drawn)


def run(train_file: Path, dev_file: Path, percent: int, flags: Sequence[str], out: Path) -> Point:
    """Train on a share of the articles, and write the answers."""
    file, articles = write_share(train_file, percent)
    data = ["--data.train-files", str(file), "--data.dev-files", str(dev_file)]
    name = ["--data.dataset", f"{train_file.stem}-{percent}"]
    (trained,) = train([*name, *data, *flags])
    answers = out / f"{percent}-percent.parquet"
    write_answers(answers, trained)
    f1 = 100 * pq.read_table(answers)["f1"].to_numpy().astype(np.float64)
    return Point(percent, articles, facts_of(trained)["trained_on"], f1)


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
    f1 = np.array([point.f1 for point in points])
    random = np.random.default_rng(0)
    n = f1.shape[1]
    draws = (random.integers(n, size=n) for _ in range(SAMPLES))
    samples = [predicted(fit(sizes, f1[:, rows].mean(1)), questions) for rows in draws]
    curve = fit(sizes, f1.mean(1))
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
    means = np.array([point.f1.mean() for point in points])
    x = np.geomspace(min(sizes), questions, 100)
    axes.plot(x, predicted(fit(sizes, means), x), "--", label="power law")
    axes.plot(sizes, means, "o", label="trained")
    axes.set(xlabel="questions to train on", ylabel="F1 on dev, %")
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, file)


def write(out: Path, points: Sequence[Point], questions: int) -> None:
    """Write the results so far."""
    facts = {}
    if len(points) > 1:
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
    parser.add_argument("train", type=Path, metavar="TRAIN.json")
    parser.add_argument("dev", type=Path, metavar="DEV.json")
    parser.add_argument("--full", type=int, required=True, metavar="QUESTIONS")
    parser.add_argument("--variant", default="char")
    arguments, others = parser.parse_known_args()
    for file in (arguments.train, arguments.dev):
        if not file.is_file():
            parser.error(f"{file} is not a file")
    flags = ["--variants", arguments.variant, *others]
    arguments.out.mkdir(parents=True, exist_ok=True)
    points: list[Point] = []
    for percent in PERCENTS:
        points.append(run(arguments.train, arguments.dev, percent, flags, arguments.out))
        write(arguments.out, points, arguments.full)


if __name__ == "__main__":
    main()
