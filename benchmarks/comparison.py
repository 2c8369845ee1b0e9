"""Collects the results of finished comparisons of variants from their stages.

Usage: python -m benchmarks.comparison --command "python -m flows.compare_variants …" [--note …]
OUT.json

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from benchmarks.common.finished import cells, finished, made_from
from benchmarks.common.machine import machine, today
from benchmarks.common.tables import markdown
from infra.artifacts.manifest import content_digest, facts_of, read_manifest
from tasks.evaluation.bootstrap import paired_gain
from tasks.reports.comparison import told_gain
from tasks.training.epoch_log import History

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Trained:
    """A training of a comparison: its variant, its folder and the folders of its splits."""

    variant: str
    folder: Path
    splits: dict[str, Path]

    @cached_property
    def history(self) -> History:
        """The entries of its epochs."""
        found: History = json.loads((self.folder / "history.json").read_text(encoding="utf-8"))
        return found

    @cached_property
    def config(self) -> dict[str, Any]:
        """Its model and training configuration."""
        found: dict[str, Any] = json.loads((self.folder / "config.json").read_text("utf-8"))
        return found

    @property
    def terms(self) -> tuple[dict[str, Path], int]:
        """The splits and the number of epochs, equal for comparable trainings."""
        return self.splits, self.config["training"]["epochs"]

    @cached_property
    def f1(self) -> Floats:
        """F1 of each dev question, 0 to 100: (n,)."""
        table = pq.read_table(self.folder / "predictions.parquet", columns=["f1"])
        return 100 * table["f1"].to_numpy().astype(np.float64)

    @cached_property
    def answerable(self) -> npt.NDArray[np.bool_]:
        """Whether each dev question has an answer: (n,)."""
        file = self.splits["dev"] / "questions.parquet"
        impossible = pq.read_table(file, columns=["is_impossible"])["is_impossible"]
        return ~impossible.to_numpy()


def trainings() -> dict[str, list[Trained]]:
    """The trainings of all finished comparisons, by dataset, vectors and seed, in order."""
    found: defaultdict[str, list[Trained]] = defaultdict(list)
    for comparison in finished("compare"):
        for title, trained in tables_of(comparison).items():
            found[title] += trained
    if not found:
        sys.exit(
            "No comparison has finished below this root: "
            "run python -m flows.compare_variants first."
        )
    return {title: newest_alike(trained) for title, trained in found.items()}


def newest_alike(trained: Sequence[Trained]) -> list[Trained]:
    """The newest training of each variant, among those with the data and epochs of the last one."""
    alike = [one for one in trained if one.terms == trained[-1].terms]
    return list({one.variant: one for one in alike}.values())


def tables_of(comparison: Path) -> dict[str, list[Trained]]:
    """The trainings of one comparison, by dataset, vectors and seed."""
    found: defaultdict[str, list[Trained]] = defaultdict(list)
    seeds = read_manifest(comparison)["inputs"]["seeds"]
    for cell, folders in cells(comparison):
        for seed, folder in zip(seeds, folders, strict=True):
            one = Trained(cell["variant"], folder, splits_of(folder))
            found[f"{cell['dataset']}, {cell['vectors']}, seed {seed}"].append(one)
    return found


def splits_of(trained: Path) -> dict[str, Path]:
    """The folders of a training's splits, by role."""
    digests = {content_digest(folder): folder for folder in made_from(trained, "data")}
    data = read_manifest(trained)["inputs"]["data"]
    roles = [role for role in ("train", "validation", "dev") if data.get(role)]
    return {role: digests[data[role]["ingested"]] for role in roles}


def row(one: Trained, before: Trained | None) -> dict[str, str]:
    """The table row of a training; `before` is the training in the row above."""
    facts, f1, answerable = facts_of(one.folder), one.f1, one.answerable
    scores, last = facts["scores"], one.history[-1]
    kept = next(entry for entry in one.history if entry["epoch"] == facts["epoch"])
    gain = None if before is None else paired_gain(before.f1, f1)
    told = {
        "variant": one.variant,
        "parameters": f"{facts['parameters']:,}",
        "EM": f"{scores['dev/em']:.2f}",
        "F1": f"{f1.mean():.2f}",
        "NLL": f"{scores['dev/nll']:.3f}",
        "gain over the one before, 95 %": told_gain(gain),
    }
    if "dev/f1_within" in scores:
        tokens = one.config["training"]["max_context_tokens"]
        within = f"the {scores['dev/questions_within']:,.0f} within {tokens} tokens"
        told[f"EM, F1, NLL of {within}"] = several(scores, "within", ("em", "f1", "nll"))
    if "validation/f1" in kept:
        told["F1 on validation"] = f"{kept['validation/f1']:.2f}"
    if not answerable.all():
        told |= {
            "AvNA": f"{scores['dev/avna']:.2f}",
            "F1 answerable": f"{f1[answerable].mean():.2f}",
            "F1 unanswerable": f"{f1[~answerable].mean():.2f}",
        }
    if "dev/f1_at_threshold" in scores:
        told["EM, F1, AvNA at threshold"] = several(scores, "at_threshold", ("em", "f1", "avna"))
    return told | {
        "minutes": f"{last['seconds'] / 60:.1f}",
        "examples/s": f"{last['examples_per_second']:.0f}",
    }


def several(scores: Mapping[str, float], which: str, names: Sequence[str]) -> str:
    """The dev scores with these names and the suffix `which`, joined by commas."""
    return ", ".join(f"{scores[f'dev/{name}_{which}']:.2f}" for name in names)


def rows(found: Sequence[Trained]) -> list[dict[str, str]]:
    """The rows of a table, one per training."""
    return [row(one, found[number - 1] if number else None) for number, one in enumerate(found)]


def draw(tables: Mapping[str, Sequence[Trained]], file: Path) -> None:
    """Draw F1 on dev and on validation after each epoch, one panel per table."""
    size = (4.5 * len(tables), 3.8)
    figure, panels = plt.subplots(1, len(tables), figsize=size, layout="constrained", squeeze=False)
    for axes, (title, found) in zip(panels[0], tables.items(), strict=True):
        for number, one in enumerate(found):
            epochs = [entry["epoch"] for entry in one.history]
            for split, style in (("dev", "o-"), ("validation", "x:")):
                f1 = [entry.get(f"{split}/f1") for entry in one.history]
                label = one.variant if split == "dev" else None
                axes.plot(epochs, f1, style, color=f"C{number}", label=label)
        axes.set(xlabel="epoch", ylabel="F1", title=title)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        axes.legend(title="dev; validation dotted", fontsize="small", title_fontsize="small")
    figure.savefig(file, dpi=150)
    plt.close(figure)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--command", required=True)
    parser.add_argument("--note", default="")
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    found = trainings()
    tables = {title: rows(each) for title, each in found.items()}
    result = {
        "command": arguments.command,
        "date": today(),
        "machine": machine(),
        "note": arguments.note,
        "data": {
            title: {role: facts_of(folder) for role, folder in each[0].splits.items()}
            for title, each in found.items()
        },
        "tables": tables,
        "trainings": {
            title: [{"config": one.config, "history": one.history} for one in each]
            for title, each in found.items()
        },
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    text = "\n".join(f"{title}\n\n{markdown(table)}" for title, table in tables.items())
    arguments.out.with_suffix(".md").write_text(text, encoding="utf-8")
    draw(found, arguments.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
