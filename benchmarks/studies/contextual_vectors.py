r"""F1, time and memory of models with and without contextual vectors, from finished comparisons.

Usage: python -m benchmarks.studies.contextual_vectors OUT_FOLDER DATASET

The commands of the published results, with the language models `wiki-bilm` and `medquad-bilm`:

    S="--training.optimizer adam --training.learning-rate 0.001 --training.precision bfloat16
      --resources.workers 2 --resources.cpus-per-worker 1"
    bidaflow compare $S --data squad-v1.1-recovered --variants char,char-elmo --seeds 0,1 \
      --vectors '{"source": "glove-6b-50d", "contextual": "wiki-bilm"}' --training.epochs 3
    bidaflow compare $S --data '[{"dataset": "medical-elmo", "train_files":
        ["squad-v1.1-recovered"], "dev_files": ["squad-v1.1-recovered", "covid_qa"],
        "overlap": "leave out", "validation_share": 0}]' --variants char-elmo --seeds 0 \
      --vectors '{"source": "glove-6b-50d", "contextual": "wiki-bilm"}' \
      --vectors '{"source": "glove-6b-50d", "contextual": "medquad-bilm"}' --training.epochs 1 \
      --training.window-stride 200 --training.max-answer-tokens 60

Collects the newest comparison on DATASET. A row is a cell: a variant with its vectors, over all
seeds. Gains are over the first cell, and their intervals resample contexts and seeds. "Within M
minutes" is the F1 of the last epoch that ended before the first cell's training did. Questions
about contexts without a title, which are those of covid_qa, are scored apart.

OUT_FOLDER gets DATASET.json and .md, and for each training a Parquet file with its answers (see
`benchmarks.trainings.answers`).
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.common.tables import format_gain, write_table
from benchmarks.comparison import Compared, splits_of
from benchmarks.trainings.answers import write_answers
from benchmarks.trainings.finished import cells, complete_comparisons, input_folders
from benchmarks.trainings.trained import Trained
from infra.artifacts.manifest import content_digest, facts_of, read_manifest
from models.arrays import BoolArray, FloatArray
from tasks.evaluation.evaluate import load_split
from tasks.evaluation.significance import bootstrap
from tasks.training.epoch_log import History


@dataclass(frozen=True)
class Cell:
    """The trainings of a variant with its vectors, one per seed."""

    vectors: str
    trainings: Sequence[Compared]

    @cached_property
    def f1(self) -> FloatArray:
        """F1 of each dev question, percent: (seeds, n)."""
        return np.array([trained.f1 for trained in self.trainings])

    @property
    def histories(self) -> list[History]:
        """The entries of the epochs of each training."""
        return [trained.history for trained in self.trainings]

    @property
    def seconds(self) -> list[float]:
        """Seconds of each training."""
        return [history[-1]["seconds"] for history in self.histories]

    def f1_within(self, seconds: Sequence[float]) -> str:
        """Mean F1 of the last epochs that ended within these seconds, one per seed."""
        f1 = [
            [entry["dev/f1"] for entry in history if entry["seconds"] <= limit]
            for history, limit in zip(self.histories, seconds, strict=True)
        ]
        return f"{np.mean([own[-1] for own in f1]):.2f}" if all(f1) else "–"


def newest(dataset: str) -> list[Cell]:
    """The cells of the newest comparison on the dataset."""
    for comparison in reversed(complete_comparisons()):
        found = list(cells(comparison))
        if {cell["dataset"] for cell, _ in found} == {dataset}:
            return [
                Cell(cell["vectors"], [Compared(cell["variant"], f, splits_of(f)) for f in own])
                for cell, own in found
            ]
    sys.exit(f"There is no finished comparison on {dataset}. Run bidaflow compare first.")


def parts(dev: Path) -> dict[str, BoolArray]:
    """The questions about titled contexts, and those about others: (n,) each."""
    titles: Any = pq.read_table(dev / "contexts.parquet", columns=["title"])["title"].to_pylist()
    titled = np.array([bool(titles[context]) for context in load_split(dev).context_of])
    both = {"SQuAD dev": titled, "covid_qa": ~titled}
    return {name: rows for name, rows in both.items() if rows.any()}


def layers_of(trained: Compared) -> dict[str, dict[str, float]]:
    """What computing the contextual layers of each split of a training took, by role."""
    data = read_manifest(trained.folder)["inputs"]["data"]
    stages = {content_digest(folder): folder for folder in input_folders(trained.folder, "data")}
    digests = {role: data[role]["layers"] for role in trained.splits}
    return {
        role: {"seconds": read_manifest(stages[digest])["seconds"], **facts_of(stages[digest])}
        for role, digest in digests.items()
        if digest is not None
    }


def row(own: Cell, first: Cell, scored: Mapping[str, BoolArray]) -> dict[str, str]:
    """A cell's row of the table."""
    columns = {
        "variant": own.trainings[0].variant,
        "vectors": own.vectors,
        "seeds": str(len(own.trainings)),
    }
    for part, rows in scored.items():
        f1, reference = own.f1[:, rows], first.f1[:, rows]
        contexts = first.trainings[0].context_of[rows]
        gain = "reference" if own is first else format_gain(bootstrap(f1, reference, contexts))
        columns |= {
            f"{part} ({int(rows.sum()):,}): F1": f"{f1.mean():.2f}",
            f"{part}: F1 of each seed": ", ".join(f"{seed.mean():.2f}" for seed in f1),
            f"{part}: gain, 95 %": gain,
        }
    last = [history[-1] for history in own.histories]
    minutes = np.mean(first.seconds) / 60
    return columns | {
        f"all: F1 within {minutes:.1f} minutes": own.f1_within(first.seconds),
        "minutes": f"{np.mean(own.seconds) / 60:.1f}",
        "examples/s": f"{np.mean([entry['examples_per_second'] for entry in last]):.0f}",
        "peak memory of a worker, GiB": (
            f"{max(entry['peak_memory_bytes'] for entry in last) / 2**30:.1f}"
        ),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT_FOLDER")
    parser.add_argument("dataset", metavar="DATASET")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    found = newest(arguments.dataset)
    scored = parts(found[0].trainings[0].splits["dev"])
    facts = {}
    for number, cell in enumerate(found):
        for trained in cell.trainings:
            seed = trained.config["training"]["seed"]
            name = f"{arguments.dataset}-{number}-{trained.variant}-seed-{seed}"
            file = arguments.out / f"{name}.parquet"
            write_answers(file, Trained(trained.folder), vectors=cell.vectors)
            manifest = read_manifest(trained.folder)
            facts[name] = {"mixes": manifest["facts"]["mixes"], "git": manifest["git"]}
    rows = [row(cell, found[0], scored) for cell in found]
    layers = [layers_of(cell.trainings[0]) for cell in found]
    program = "benchmarks.studies.contextual_vectors"
    write_table(arguments.out, arguments.dataset, program, rows, layers=layers, trainings=facts)


if __name__ == "__main__":
    main()
