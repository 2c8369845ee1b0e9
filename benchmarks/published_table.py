"""Compares trainings on SQuAD 2.0 with the scores that CS224n's report published.

Usage: python -m benchmarks.published_table OUT_FOLDER [TRAINED…] [--expected-no-answer 0.5]
       [--note …]

TRAINED are folders of the stage `train`, such as ROOT/stages/train/*. Their dev split should be
CS224n's dev half. For each, the program evaluates the saved model on validation (minutes), and adds
two files to OUT_FOLDER: the answers to dev, and validation-… with those to validation (see
`benchmarks.trainings.answers`). The table has all trainings of OUT_FOLDER, so that they may be
added one after the other, and from several storage roots.

The no-answer threshold is the best one for validation without generated negatives, weighted to the
expected share of unanswerable questions. The trainings of a row have the same variant, settings and
data, and different seeds. Gains compare all pairs of rows with the same number of epochs; p-values
are corrected over these pairs (Holm).

OUT_FOLDER gets published.md and published.json, and epochs.png with F1 on validation by epoch.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.common.figures import save
from benchmarks.common.machine import machine, today
from benchmarks.common.tables import markdown
from benchmarks.trainings.answered import Answered, read_answers
from benchmarks.trainings.answers import write_answers, write_validation
from benchmarks.trainings.rows import Row, rows_of
from benchmarks.trainings.trained import Trained
from benchmarks.trainings.validation import add_expected_no_answer
from infra.atomic_files import write_atomically
from models.arrays import FloatArray
from tasks.data.negatives import negative_kind
from tasks.evaluation.evaluate import load_split
from tasks.evaluation.significance import bootstrap, corrected_gains

VALIDATION = "validation-"
# EM, F1, NLL and AvNA of CS224n's report, after 30 epochs on all of SQuAD 2.0, over the 5,951
# questions about contexts of at most 400 tokens.
PUBLISHED = {
    "baseline": (56.65, 60.10, 3.21, 64.46),
    "char": (58.14, 61.26, 2.97, 66.78),
    "char-selfattn": (59.81, 62.97, 2.81, 68.73),
    "char-selfattn-v1": (55.25, 57.39, 3.48, 63.28),
}


@dataclass(frozen=True)
class Evaluated:
    """A training's answers to dev, and the threshold that validation chose."""

    answered: Answered
    threshold: float

    def within(self, limit: bool) -> "Evaluated":
        """Those to questions about contexts within the token limit of training, or all."""
        answered = self.answered
        return Evaluated(answered.take(answered.within), self.threshold) if limit else self

    def means(self, threshold: float) -> FloatArray:
        """Mean EM, F1 and AvNA (percent) at a threshold, (3,)."""
        scores = self.answered.at(threshold)
        return np.array([scores.em.mean(), scores.f1.mean(), scores.avna.mean()])


def add_answers(out: Path, trained: Trained, expected_no_answer: float) -> None:
    """Write a training's answers to validation and to dev."""
    name = trained.training.file_name
    write_validation(out / f"{VALIDATION}{name}", trained)
    write_answers(out / name, trained)
    print(f"{name}: threshold {threshold_of(out / name, expected_no_answer):.3f}", flush=True)


def threshold_of(file: Path, expected_no_answer: float) -> float:
    """The threshold by validation of the training whose file of answers to dev this is."""
    validation_file = file.with_name(f"{VALIDATION}{file.name}")
    if not validation_file.exists():
        sys.exit(f"{file} has no {validation_file.name} beside it, which chooses the threshold.")
    validation = read_answers(validation_file)
    return validation.without_negatives().threshold(expected_no_answer)


def require_comparable(out: Path, trainings: Sequence[Trained]) -> None:
    """End the program, before models predict for minutes, if the trainings can't share a table with
    each other and with those of a folder of results."""
    for trained in trainings:
        require_both_kinds(trained)
    rows_of([trained.training for trained in trainings])  # refuses a seed that is given twice
    earlier = [read_answers(file) for file in files_of(out)]
    dev = [load_split(trained.input("dev", "ingested")).ids for trained in trainings]
    if len({tuple(ids) for ids in [*dev, *(answers.ids for answers in earlier)]}) > 1:
        sys.exit(
            f"The trainings, and those in {out}, have different dev splits. Give those of one dev "
            "split only."
        )
    facts = [*(own.training for own in trainings), *(own.training for own in earlier)]
    limits = {training.variant.training.max_context_tokens for training in facts}
    if len(limits) > 1:
        sys.exit(
            f"The trainings, and those in {out}, have different limits of context tokens "
            f"({', '.join(map(str, sorted(limits)))}), so their scores within it are about "
            "different questions. Give those of one limit only."
        )


def files_of(out: Path) -> list[Path]:
    """The files of answers to dev in a folder of results."""
    return sorted(file for file in out.glob("*.parquet") if not file.name.startswith(VALIDATION))


def require_both_kinds(trained: Trained) -> None:
    """End the program if no threshold can be chosen for a training."""
    split = load_split(trained.input("validation", "ingested"))
    answerable = split.answerable[[negative_kind(id) is None for id in split.ids]]
    if answerable.all() or not answerable.any() or not trained.allows_no_answer:
        sys.exit(
            f"{trained.folder}: no threshold can be chosen, because its training or validation "
            "split lacks answerable or unanswerable questions. Give trainings on SQuAD 2.0."
        )


def evaluated_in(out: Path, expected_no_answer: float) -> dict[str, Evaluated]:
    """The trainings of a folder of results, by the names of their files."""
    files = files_of(out)
    if not files:
        sys.exit(f"{out} has no answers of trainings yet. Give folders ROOT/stages/train/….")
    return {
        file.name: Evaluated(read_answers(file), threshold_of(file, expected_no_answer))
        for file in files
    }


Evaluations = Mapping[str, Sequence[Evaluated]]
"""The evaluated trainings of each row, by its title."""


def table_row(row: Row, trainings: Sequence[Evaluated], within: bool) -> dict[str, str]:
    """The table row of the trainings of a row: means, and the interval of F1."""
    own = [training.within(within) for training in trainings]
    em, _, avna = np.mean([e.means(e.threshold) for e in own], axis=0)
    f1 = f1_of(own)
    interval = bootstrap(f1, group_of=own[0].answered.article)
    kept = [training.answered.facts["kept"] for training in own]
    nll = [facts["scores"]["dev/nll_within" if within else "dev/nll"] for facts in kept]
    auc = [area for e in own if (area := e.answered.auc) is not None]
    inputs = row.trainings[0].inputs
    published = PUBLISHED.get(row.variant) if within else None
    return {
        "variant": row.variant,
        "settings": row.settings or "–",
        "epochs": str(row.epochs),
        "epoch kept": ", ".join(str(facts["epoch"]) for facts in kept),
        "seeds": ", ".join(str(training.seed) for training in row.trainings),
        "questions": f"{f1.shape[1]:,}",
        "EM": f"{em:.2f}",
        "F1": f"{interval.mean:.2f}",
        "F1, 95 %": f"{interval.low:.2f} to {interval.high:.2f}",
        "F1 of each seed": ", ".join(f"{seed.mean():.2f}" for seed in f1),
        "NLL": f"{np.mean(nll):.2f}",
        "AvNA": f"{avna:.2f}",
        "AUC": f"{np.mean(auc):.3f}" if auc else "–",
        "threshold": ", ".join(f"{e.threshold:.2f}" for e in own),
        "argmax EM / F1 / AvNA": join_scores(np.mean([e.means(0.0) for e in own], axis=0)),
        "oracle F1": f"{np.mean([e.answered.oracle_f1 for e in own]):.2f}",
        "trained on": f"{inputs['questions']} questions",
        "vectors": inputs["vectors"],
        "published EM / F1 / NLL / AvNA": join_scores(published) if published else "–",
    }


def f1_of(trainings: Sequence[Evaluated]) -> FloatArray:
    """F1 (percent) at the chosen thresholds: (seeds, n)."""
    return np.array([e.answered.at(e.threshold).f1 for e in trainings])


def join_scores(scores: Iterable[float]) -> str:
    """Scores with two decimal places, as one cell of a table."""
    return " / ".join(f"{score:.2f}" for score in scores)


def gain_rows(rows: Sequence[Row], evaluated: Evaluations, within: bool) -> list[dict[str, str]]:
    """The F1 gains of the later over the earlier row of each pair with equal epochs."""
    f1 = {
        row.title: f1_of([training.within(within) for training in evaluated[row.title]])
        for row in rows
    }
    pairs = {
        f"{before.title}\n{after.title}": (before.title, after.title)
        for before, after in combinations(rows, 2)
        if before.epochs == after.epochs
    }
    articles = evaluated[rows[0].title][0].within(within).answered.article
    gains = corrected_gains(
        {key: (f1[after], f1[before]) for key, (before, after) in pairs.items()}, articles
    )
    return [
        {
            "variant": after,
            "over": before,
            "questions": f"{f1[after].shape[1]:,}",
            "F1 gain, 95 %": gains[key].text,
            "p (Holm)": f"{gains[key].p:.3f}",
        }
        for key, (before, after) in pairs.items()
    ]


def published_order(row: Row) -> int:
    """The position of a row's variant in the published table; other variants come last."""
    variants = list(PUBLISHED)
    return variants.index(row.variant) if row.variant in variants else len(variants)


def draw_epochs(rows: Sequence[Row], evaluated: Evaluations, file: Path) -> None:
    """Draw F1 on validation after each epoch, the mean over a row's seeds."""
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for row in rows:
        histories = [own.answered.facts["history"] for own in evaluated[row.title]]
        # Early stopping may have ended some seeds before others.
        epochs = zip(*histories, strict=False)
        f1 = [np.mean([entry["validation/f1"] for entry in entries]) for entries in epochs]
        axes.plot(range(1, len(f1) + 1), f1, "o-", markersize=3, label=row.title)
    axes.set(xlabel="epoch", ylabel="F1 on validation, %")
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, file)


def main() -> None:
    """Evaluate the trainings of the command line and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT_FOLDER")
    parser.add_argument("trained", type=Path, nargs="*", metavar="TRAINED")
    add_expected_no_answer(parser)
    parser.add_argument("--note", default="")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    expected = arguments.expected_no_answer
    trainings = [Trained(folder.resolve()) for folder in arguments.trained]
    require_comparable(arguments.out, trainings)
    for trained in trainings:
        add_answers(arguments.out, trained, expected)
    write(arguments.out, expected, arguments.note)


def write(out: Path, expected_no_answer: float, note: str) -> None:
    """Write the table of all trainings of a folder of results."""
    found = evaluated_in(out, expected_no_answer)
    rows = sorted(rows_of([own.answered.training for own in found.values()]), key=published_order)
    # Files of earlier releases may have other names.
    own_of = {own.answered.training.file_name: own for own in found.values()}
    evaluated = {row.title: [own_of[t.file_name] for t in row.trainings] for row in rows}
    draw_epochs(rows, evaluated, out / "epochs.png")
    table = [
        table_row(row, evaluated[row.title], within) for within in (False, True) for row in rows
    ]
    gains = [gain for within in (False, True) for gain in gain_rows(rows, evaluated, within)]
    result = {
        "command": "python -m " + " ".join(["benchmarks.published_table", *sys.argv[1:]]),
        "note": note,
        "expected_no_answer": expected_no_answer,
        "date": today(),
        "machine": machine(),
        "trainings": [{"answers": name, **own.answered.summary} for name, own in found.items()],
        "table": table,
        "gains": gains,
    }
    write_atomically(out / "published.json", json.dumps(result, indent=1) + "\n")
    text = (
        f"EM, F1 and AvNA are at the no-answer threshold that validation chose, weighted to "
        f"{100 * expected_no_answer:g} % of unanswerable questions. Argmax: no answer where it is "
        "more probable than the best span. Oracle: F1 at dev's own best threshold. Intervals "
        "resample articles, and seeds where a row has several; * p < 0.05 after Holm's "
        "correction. The published models were trained for 30 epochs on all of SQuAD 2.0 (130,319 "
        "questions), with larger GloVe vectors; ours on the questions and vectors in the table."
        f"\n\n{markdown(table)}"
    )
    if gains:
        text += f"\n{markdown(gains)}"
    write_atomically(out / "published.md", text)
    print(text)


if __name__ == "__main__":
    main()
