"""Compares trainings on SQuAD 2.0 with the scores that CS224n's report published.

Usage: python -m benchmarks.published_table OUT_FOLDER TRAINED… [--expected-no-answer 0.5]
       [--note …]

TRAINED are folders of the stage `train`, such as ROOT/stages/train/*, of one or more storage roots.
Their dev split should be CS224n's dev half. The no-answer threshold of each is the one of the
trained model for the expected share of unanswerable questions.

The trainings of a row have the same variant, settings and data, and different seeds. Gains compare
all pairs of rows with the same number of epochs; p-values are corrected over these pairs (Holm).

OUT_FOLDER gets published.md and published.json, and epochs.png with F1 on validation by epoch.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.common.figures import save
from benchmarks.common.machine import machine, today
from benchmarks.common.tables import markdown
from benchmarks.trainings.answered import Answered, answers_of
from benchmarks.trainings.rows import Row, rows_of
from benchmarks.trainings.trained import Trained
from infra.atomic_files import write_atomically
from models.arrays import FloatArray
from tasks.evaluation.significance import corrected_gains, t_test

# EM, F1, NLL and AvNA of CS224n's report, after 30 epochs on all of SQuAD 2.0, over the 5,951
# questions about contexts of at most 400 tokens.
PUBLISHED = {
    "baseline": (56.65, 60.10, 3.21, 64.46),
    "char": (58.14, 61.26, 2.97, 66.78),
    "char-selfattn": (59.81, 62.97, 2.81, 68.73),
    "char-selfattn-v1": (55.25, 57.39, 3.48, 63.28),
}

Evaluations = Mapping[str, Sequence[Answered]]
"""The answers of each row's trainings, by its title."""


def require_comparable(trainings: Sequence[Trained]) -> None:
    """End the program if the trainings can't share a table."""
    if len({trained.manifest["inputs"]["data"]["dev"]["ingested"] for trained in trainings}) > 1:
        sys.exit("The trainings have different dev splits. Give those of one dev split only.")
    limits = {trained.variant.training.max_context_tokens for trained in trainings}
    if len(limits) > 1:
        sys.exit(
            "The trainings have different limits of context tokens "
            f"({', '.join(map(str, sorted(limits)))}), so their scores within it are about "
            "different questions. Give those of one limit only."
        )


def within_limit(answers: Sequence[Answered], within: bool) -> list[Answered]:
    """The answers about contexts within the token limit of training, or all."""
    return [own.take(own.within) if within else own for own in answers]


def table_row(row: Row, answers: Sequence[Answered], within: bool) -> dict[str, str]:
    """The table row of the trainings of a row: means, and the interval of F1."""
    own = within_limit(answers, within)
    em, _, avna = np.mean([e.scores.means for e in own], axis=0)
    f1 = f1_of(own)
    interval, _ = t_test(f1, group_of=own[0].article)
    facts = [trained.facts for trained in row.trainings]
    nll = [f["scores"]["dev/nll_within" if within else "dev/nll"] for f in facts]
    auc = [area for e in own if (area := e.auc) is not None]
    inputs = row.trainings[0].inputs
    published = PUBLISHED.get(row.variant) if within else None
    return {
        "variant": row.variant,
        "settings": row.settings or "–",
        "epochs": str(row.epochs),
        "epoch kept": ", ".join(str(f["epoch"]) for f in facts),
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
        "argmax EM / F1 / AvNA": join_scores(np.mean([e.at(0.0).means for e in own], axis=0)),
        "oracle F1": f"{np.mean([e.oracle_f1 for e in own]):.2f}",
        "trained on": f"{inputs['questions']} questions",
        "vectors": inputs["vectors"],
        "published EM / F1 / NLL / AvNA": join_scores(published) if published else "–",
    }


def f1_of(answers: Sequence[Answered]) -> FloatArray:
    """F1 (percent) at the chosen thresholds: (seeds, n)."""
    return np.array([own.scores.f1 for own in answers])


def join_scores(scores: Iterable[float]) -> str:
    """Scores with two decimal places, as one cell of a table."""
    return " / ".join(f"{score:.2f}" for score in scores)


def gain_rows(rows: Sequence[Row], evaluated: Evaluations, within: bool) -> list[dict[str, str]]:
    """The F1 gains of the later over the earlier row of each pair with equal epochs."""
    f1 = {title: f1_of(within_limit(answers, within)) for title, answers in evaluated.items()}
    pairs = [
        (before.title, after.title)
        for before, after in combinations(rows, 2)
        if before.epochs == after.epochs
    ]
    (first, *_) = within_limit(evaluated[rows[0].title], within)
    gains = corrected_gains(
        {(before, after): (f1[after], f1[before]) for before, after in pairs}, first.article
    )
    return [
        {
            "variant": after,
            "over": before,
            "questions": f"{f1[after].shape[1]:,}",
            "F1 gain, 95 %": gain.text,
            "p (Holm)": f"{gain.p:.3f}",
        }
        for (before, after), gain in gains.items()
    ]


def published_order(row: Row) -> int:
    """The position of a row's variant in the published table; other variants come last."""
    variants = list(PUBLISHED)
    return variants.index(row.variant) if row.variant in variants else len(variants)


def draw_epochs(rows: Sequence[Row], file: Path) -> None:
    """Draw F1 on validation after each epoch, the mean over a row's seeds."""
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for row in rows:
        # Early stopping may have ended some seeds before others.
        epochs = zip(*(trained.history for trained in row.trainings), strict=False)
        f1 = [np.mean([entry["validation/f1"] for entry in entries]) for entries in epochs]
        axes.plot(range(1, len(f1) + 1), f1, "o-", markersize=3, label=row.title)
    axes.set(xlabel="epoch", ylabel="F1 on validation, %")
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, file)


def summary(trained: Trained) -> dict[str, object]:
    """The configuration, commit, date and kept epoch of a training."""
    return {
        "config": trained.variant.to_dict(),
        "inputs": trained.inputs,
        "git": trained.manifest["git"],
        "date": trained.manifest["finished"][:10],
        "kept": {"epoch": trained.facts["epoch"], "scores": trained.facts["scores"]},
    }


def write(
    out: Path, trainings: Sequence[Trained], expected_no_answer: float, note: str = ""
) -> None:
    """Write the table and the figure of the trainings to a folder."""
    rows = sorted(rows_of(trainings), key=published_order)
    evaluated = {
        row.title: [answers_of(trained, expected_no_answer) for trained in row.trainings]
        for row in rows
    }
    draw_epochs(rows, out / "epochs.png")
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
        "trainings": [summary(trained) for row in rows for trained in row.trainings],
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


def share(text: str) -> float:
    """A number between 0 and 1; argparse reports another one."""
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def main() -> None:
    """Evaluate the trainings of the command line and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT_FOLDER")
    parser.add_argument("trained", type=Path, nargs="+", metavar="TRAINED")
    parser.add_argument(
        "--expected-no-answer",
        type=share,
        default=0.5,
        metavar="SHARE",
        help="share of unanswerable questions that thresholds are chosen for (default: 0.5)",
    )
    parser.add_argument("--note", default="", help="note to record with the results")
    arguments = parser.parse_args()
    trainings = [Trained(folder.resolve()) for folder in arguments.trained]
    require_comparable(trainings)
    arguments.out.mkdir(parents=True, exist_ok=True)
    write(arguments.out, trainings, arguments.expected_no_answer, arguments.note)


if __name__ == "__main__":
    main()
