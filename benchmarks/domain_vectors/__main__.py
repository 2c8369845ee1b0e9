r"""Which ways of adding a domain's words to GloVe make answers better: the same data and budget for
each.

Usage: python -m benchmarks.domain_vectors (--pilot | --final) [--domain medical|biology]
       [--arms a-la-carte,oracle] [--also contexts] [--precision float32] [--cells N]
       [--minutes M] [--out FOLDER]

The commands of the published results, with BIDAFLOW_MIRROR set to the folder with the data:

    python -m benchmarks.domain_vectors --pilot
    python -m benchmarks.domain_vectors --final --also contexts
    python -m benchmarks.domain_vectors --pilot --domain biology

`char` is trained on squad-v1.1-recovered with the vectors of each arm. --pilot trains all arms for
one epoch from one seed. --final trains GloVe, the random control and the two arms that were best in
the pilot for three epochs from each of three seeds. The best are chosen by the sum of F1 on
validation and on half of the domain's articles or papers ("selection"); the other half decides.
--final requires a complete pilot, apart from the controls. --also adds arms to it, such as
"contexts", which is a control because it reads the texts that models answer from.

A cell is one training: about 20 minutes an epoch on two cores. --precision float32 is for CPUs
without AVX-512, on which bfloat16 is slow. All arms of a seed must have the same precision; seeds
with finished cells in another one are left out. The answers of a finished cell are kept in FOLDER
as Parquet: ids, spans, probabilities and scores, but no text. Run the same command again to go on;
a training that was killed resumes from its last checkpoint. --cells and --minutes end the program
before a cell, after so many new cells, or after so many minutes. --arms limits the cells to some
arms. Each run writes FOLDER/<domain>-pilot.md and .json, or -final, with the arms that are
finished, on the seeds that all of them have finished.

The medical domain has the questions of covid_qa, and `medquad` as its texts. The domain biology has
those of SQuAD's dev set about living things, and the 30,000 paragraphs of Wikipedia that are
nearest to such articles of SQuAD's train set (chosen at the first run, which takes minutes).
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from benchmarks.common.machine import machine, today
from benchmarks.common.tables import markdown
from benchmarks.domain_vectors.arms import ARMS, CONTROL, CONTROLS, REFERENCE
from benchmarks.domain_vectors.cells import CHANGES, Cell, Setting, run_cell
from benchmarks.domain_vectors.domains import DOMAINS
from benchmarks.domain_vectors.scores import (
    best_arms,
    comparable,
    conditions,
    precisions,
    read_parts,
    read_scores,
    table,
    vectors_table,
)
from infra.atomic_files import write_atomically
from infra.cluster.allotment import Resources
from infra.settings import CHECKOUT
from models.configs.variant import Precision

PILOT_SEEDS, PILOT_EPOCHS = (0,), 1
FINAL_SEEDS, FINAL_EPOCHS = (0, 1, 2), 3
BEST = 2
OUT = CHECKOUT / "benchmarks" / "results" / "domain_vectors"


@dataclass(frozen=True)
class Limits:
    """When to end before a cell."""

    cells: int | None = None
    minutes: float | None = None


def pilot_cells(arms: Sequence[str]) -> list[Cell]:
    """A cell for each arm."""
    return [Cell(arm, seed, PILOT_EPOCHS) for arm in arms for seed in PILOT_SEEDS]


def final_cells(pilot: Path, also: Sequence[str] = ()) -> list[Cell]:
    """Cells for GloVe, the control, the best arms of the pilot and those of `also`, seed by seed.

    All arms that the best are chosen from, and GloVe, must be finished in the pilot.
    """
    scores = read_scores(pilot, pilot_cells(list(ARMS)))
    required = [arm for arm in ARMS if arm == REFERENCE or arm not in CONTROLS]
    missing = [arm for arm in required if arm not in scores]
    if missing:
        sys.exit(f"{pilot} has no results of {', '.join(missing)}. Run them first, with --pilot.")
    best = best_arms(scores, read_parts(pilot), BEST)
    arms = dict.fromkeys([REFERENCE, CONTROL, *best, *also])
    return [Cell(arm, seed, FINAL_EPOCHS) for seed in FINAL_SEEDS for arm in arms]


def run_cells(setting: Setting, cells: Sequence[Cell], limits: Limits) -> list[Cell]:
    """Run the cells that are not finished, up to the limits; returns those that failed."""
    failed = []
    began = time.perf_counter()
    pending = [cell for cell in cells if not (setting.out / cell.file).exists()]
    for number, cell in enumerate(pending):
        minutes = (time.perf_counter() - began) / 60
        if number == limits.cells or (limits.minutes is not None and minutes >= limits.minutes):
            print(f"{len(pending) - number} cells are left. Run the command again.", flush=True)
            break
        print(f"Cell {number + 1} of {len(pending)}: {cell.arm}, seed {cell.seed}", flush=True)
        try:
            run_cell(setting, cell)
        except (Exception, SystemExit) as error:  # the other arms do not depend on it
            print(f"{cell.arm}, seed {cell.seed}, failed: {error}", file=sys.stderr, flush=True)
            failed.append(cell)
    return failed


def in_precision(
    precision: str, folder: Path, cells: Sequence[Cell], wanted: Sequence[Cell]
) -> list[Cell]:
    """The wanted cells, without those of seeds whose finished cells have another precision. If any
    of these is left, the program says so."""
    others = {seed: own for seed, own in precisions(folder, cells).items() if own != precision}
    left = {cell.seed for cell in wanted if not (folder / cell.file).exists()}
    for seed in sorted(left & others.keys()):
        print(
            f"Seed {seed} has cells in {others[seed]}. Its other cells need --precision "
            f"{others[seed]}, and are left out.",
            flush=True,
        )
    return [cell for cell in wanted if cell.seed not in others]


def write_table(out: Path, cells: Sequence[Cell], file: Path) -> None:
    """Write the tables of the finished arms, and the facts about their trainings. While seeds are
    left, the tables are about those that all arms have finished."""
    cells = comparable(out, cells)
    scores = read_scores(out, cells)
    if REFERENCE not in scores:
        print(f"No table yet: the arm {REFERENCE} is not finished.")
        return
    described = conditions(scores, precisions(out, cells))
    rows, vectors = table(scores, read_parts(out)), vectors_table(scores)
    result = {
        "command": "python -m benchmarks.domain_vectors " + " ".join(sys.argv[1:]),
        "date": today(),
        "machine": machine(),
        "conditions": described,
        "table": rows,
        "vectors": vectors,
        "trainings": {arm: own.facts for arm, own in scores.items()},
    }
    write_atomically(file.with_suffix(".json"), json.dumps(result, indent=1) + "\n")
    text = (
        f"{described}\n{markdown(rows)}\nThe words that each arm adds to GloVe, their fit "
        "(for arms that fill GloVe), and the questions of the domain with a word that has no "
        f"vector:\n\n{markdown(vectors)}"
    )
    write_atomically(file.with_suffix(".md"), text)
    print(text)


def names(text: str) -> list[str]:
    """The names of a list such as "a,b"."""
    return text.split(",")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.domain_vectors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    stage = parser.add_mutually_exclusive_group(required=True)
    stage.add_argument("--pilot", action="store_true", help="one seed and one epoch of each arm")
    stage.add_argument("--final", action="store_true", help="three seeds and epochs of the best")
    parser.add_argument("--domain", choices=DOMAINS, default="medical")
    parser.add_argument("--arms", type=names, default=list(ARMS), help="default: all")
    parser.add_argument("--also", type=names, default=[], help="further arms for --final")
    parser.add_argument("--precision", choices=get_args(Precision), default="bfloat16")
    parser.add_argument("--cells", type=int, help="largest number of new cells")
    parser.add_argument("--minutes", type=float, help="start no cell after so many minutes")
    parser.add_argument("--out", type=Path, default=OUT, help=f"default: {OUT}")
    options = parser.parse_args()
    unknown = [arm for arm in (*options.arms, *options.also) if arm not in ARMS]
    if unknown:
        parser.error(f"unknown arm {unknown[0]!r}; expected some of {', '.join(ARMS)}")
    if options.pilot and options.also:
        parser.error("--also is for --final; the pilot has all arms")
    pilot, final = (options.out / f"{options.domain}-{name}" for name in ("pilot", "final"))
    folder = pilot if options.pilot else final
    cells = pilot_cells(list(ARMS)) if options.pilot else final_cells(pilot, options.also)
    wanted = [cell for cell in cells if cell.arm in options.arms]
    wanted = in_precision(options.precision, folder, cells, wanted)
    domain, resources = DOMAINS[options.domain], Resources(workers=2, cpus_per_worker=1)
    limits = Limits(options.cells, options.minutes)
    changes = {**CHANGES, "precision": options.precision}
    failed = run_cells(Setting(domain, folder, changes, resources), wanted, limits)
    write_table(folder, cells, folder)
    if failed:
        sys.exit(f"Failed: {', '.join(cell.file for cell in failed)}. Run the command again.")


if __name__ == "__main__":
    main()
