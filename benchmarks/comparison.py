"""Collects the results of finished comparisons of variants from their stages.

Usage: python -m benchmarks.comparison --command "bidaflow compare …" [--note …] OUT.json

There is one table for each dataset, set of vectors and seed. It shows each variant's scores on dev,
on the answerable and on the unanswerable questions, and its gain over the variant in the row above.
The tables (.md) and a picture of F1 over the epochs (.png) are written next to the JSON file.

A table has each variant's newest training. The trainings may come from several comparisons, such as
one per variant, each with a warm start from that variant's earlier model. All trainings of a table
have the data and the number of epochs of the newest one.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

from benchmarks.common.figures import save
from benchmarks.common.machine import machine, today
from benchmarks.common.tables import format_gain, markdown
from benchmarks.trainings.trained import Trained
from infra.artifacts.manifest import MANIFEST, facts_of, read_manifest, stages_folder
from models.arrays import BoolArray, FloatArray, IntArray
from tasks.evaluation.bootstrap import paired_gain
from tasks.evaluation.evaluate import read_groups


class Compared(Trained):
    """A training of a comparison."""

    @property
    def splits(self) -> dict[str, Path]:
        """The folders of its splits, by role."""
        data = self.manifest["inputs"]["data"]
        roles = [role for role in ("train", "validation", "dev") if data.get(role)]
        return {role: self.input(role, "ingested") for role in roles}

    @property
    def conditions(self) -> tuple[dict[str, Path], int]:
        """The splits and the number of epochs, equal for comparable trainings."""
        return self.splits, self.epochs

    @cached_property
    def f1(self) -> FloatArray:
        """F1 of each dev question, 0 to 100: (n,)."""
        table = pq.read_table(self.folder / "predictions.parquet", columns=["f1"])
        return 100 * table["f1"].to_numpy().astype(np.float64)

    @property
    def group_of(self) -> IntArray:
        """The group of each dev question, which intervals draw as a whole: (n,)."""
        return read_groups(self.folder / "predictions.parquet")

    @cached_property
    def answerable(self) -> BoolArray:
        """Whether each dev question has an answer: (n,)."""
        file = self.splits["dev"] / "questions.parquet"
        impossible = pq.read_table(file, columns=["is_impossible"])["is_impossible"]
        return ~impossible.to_numpy()


def trainings() -> dict[str, list[Compared]]:
    """The trainings of all finished comparisons, by dataset, vectors and seed, in order."""
    tables: defaultdict[str, list[Compared]] = defaultdict(list)
    for comparison in complete_comparisons():
        for title, trained in trainings_of(comparison):
            tables[title].append(trained)
    if not tables:
        sys.exit(
            f"There is no finished comparison under {stages_folder()}. "
            "Run bidaflow compare first, or set BIDAFLOW_ROOT."
        )
    return {title: newest_comparable(trained) for title, trained in tables.items()}


def complete_comparisons() -> list[Path]:
    """The folders of comparisons none of whose trainings failed, the newest last."""
    folders = [file.parent for file in (stages_folder() / "compare").glob(f"[!.]*/{MANIFEST}")]
    complete = [folder for folder in folders if not read_manifest(folder)["inputs"]["missing"]]
    return sorted(complete, key=lambda folder: str(read_manifest(folder)["finished"]))


def trainings_of(comparison: Path) -> Iterator[tuple[str, Compared]]:
    """Yield the trainings of a comparison, each with its dataset, vectors and seed in words."""
    manifest = read_manifest(comparison)
    inputs = manifest["inputs"]
    stages = {origin["digest"]: origin for origin in manifest["made_from"]}
    for trained in inputs["cells"]:
        cell = trained["cell"]
        for seed, digest in zip(inputs["seeds"], trained["trained"], strict=True):
            folder = stages_folder() / "train" / stages[digest]["key"]
            yield f"{cell['dataset']}, {cell['vectors']}, seed {seed}", Compared(folder)


def newest_comparable(trained: Sequence[Compared]) -> list[Compared]:
    """The newest training of each variant, among those with the data and epochs of the last one."""
    comparable = [run for run in trained if run.conditions == trained[-1].conditions]
    return list({run.variant.name: run for run in comparable}.values())


def row(trained: Compared, before: Compared | None) -> dict[str, str]:
    """The table row of a training; `before` is the training in the row above."""
    facts, f1, answerable = trained.facts, trained.f1, trained.answerable
    scores, last = facts["scores"], trained.history[-1]
    kept = next(entry for entry in trained.history if entry["epoch"] == facts["epoch"])
    gain = None if before is None else paired_gain(before.f1, f1, trained.group_of)
    columns = {
        "variant": trained.variant.name,
        "parameters": f"{facts['parameters']:,}",
        "EM": f"{scores['dev/em']:.2f}",
        "F1": f"{f1.mean():.2f}",
        "NLL": f"{scores['dev/nll']:.3f}",
        "F1 gain over the row above, 95 %": format_gain(gain),
    }
    if "dev/f1_within" in scores:
        tokens = trained.variant.training.max_context_tokens
        within = f"the {scores['dev/questions_within']:,.0f} within {tokens} tokens"
        columns[f"EM, F1, NLL of {within}"] = join_scores(scores, "within", ("em", "f1", "nll"))
    if "validation/f1" in kept:
        columns["F1 on validation"] = f"{kept['validation/f1']:.2f}"
    if not answerable.all():
        columns |= {
            "AvNA": f"{scores['dev/avna']:.2f}",
            "F1 answerable": f"{f1[answerable].mean():.2f}",
            "F1 unanswerable": f"{f1[~answerable].mean():.2f}",
        }
    if "dev/f1_at_threshold" in scores:
        names = ("em", "f1", "avna")
        columns["EM, F1, AvNA at threshold"] = join_scores(scores, "at_threshold", names)
    return columns | {
        "minutes": f"{last['seconds'] / 60:.1f}",
        "examples/s": f"{last['examples_per_second']:.0f}",
    }


def join_scores(scores: Mapping[str, float], suffix: str, names: Sequence[str]) -> str:
    """The dev scores with these names and this suffix, joined by commas."""
    return ", ".join(f"{scores[f'dev/{name}_{suffix}']:.2f}" for name in names)


def rows(trained: Sequence[Compared]) -> list[dict[str, str]]:
    """The rows of a table, one per training."""
    return [row(run, trained[i - 1] if i else None) for i, run in enumerate(trained)]


def draw(tables: Mapping[str, Sequence[Compared]], file: Path) -> None:
    """Draw F1 on dev and on validation after each epoch, one panel per table."""
    size = (4.5 * len(tables), 3.8)
    figure, panels = plt.subplots(1, len(tables), figsize=size, layout="constrained", squeeze=False)
    for axes, (title, trained) in zip(panels[0], tables.items(), strict=True):
        for number, run in enumerate(trained):
            epochs = [entry["epoch"] for entry in run.history]
            for split, style in (("dev", "o-"), ("validation", "x:")):
                f1 = [entry.get(f"{split}/f1") for entry in run.history]
                label = run.variant.name if split == "dev" else None
                axes.plot(epochs, f1, style, color=f"C{number}", label=label)
        axes.set(xlabel="epoch", ylabel="F1", title=title)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        axes.legend(title="dev; validation dotted", fontsize="small", title_fontsize="small")
    save(figure, file)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--command", required=True, help="command of the comparison, recorded")
    parser.add_argument("--note", default="", help="note to record with the results")
    parser.add_argument("out", type=Path, help="JSON file for the results")
    arguments = parser.parse_args()
    trained = trainings()
    tables = {title: rows(runs) for title, runs in trained.items()}
    result = {
        "command": arguments.command,
        "date": today(),
        "machine": machine(),
        "note": arguments.note,
        "data": {
            title: {role: facts_of(folder) for role, folder in runs[0].splits.items()}
            for title, runs in trained.items()
        },
        "tables": tables,
        "trainings": {
            title: [{"config": run.variant.to_dict(), "history": run.history} for run in runs]
            for title, runs in trained.items()
        },
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    text = "\n".join(f"{title}\n\n{markdown(table)}" for title, table in tables.items())
    arguments.out.with_suffix(".md").write_text(text, encoding="utf-8")
    draw(trained, arguments.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
