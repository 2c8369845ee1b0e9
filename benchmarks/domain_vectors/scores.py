"""The table of a benchmark, from the files of its cells."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.domain_vectors.arms import ARMS, CONTROLS, REFERENCE
from benchmarks.domain_vectors.cells import QUESTIONS, Cell
from benchmarks.domain_vectors.domains import DECISION, GENERAL, SELECTION
from benchmarks.trainings.answers import read_facts
from models.arrays import BoolArray, FloatArray, IntArray
from tasks.evaluation.bootstrap import SAMPLES
from tasks.evaluation.significance import SIGNIFICANT, corrected_gains

ALL, OUTSIDE = "domain", "outside GloVe"
PARTS = (DECISION, SELECTION, ALL, GENERAL, OUTSIDE)
# Where questions miss a word (see `vector_facts`), as columns.
MISSING = {
    "missing_in_question": "missing in question",
    "missing_in_answer": "in answer",
    "missing_nearby": "near the answer",
    "missing": "any of these",
}


@dataclass(frozen=True)
class Scores:
    """F1 of an arm's cells, one per seed."""

    f1: FloatArray  # (seeds, n) of each question, 0 to 100
    validation: FloatArray  # (seeds,) on validation
    facts: list[dict[str, Any]]  # of each seed's training


def comparable(out: Path, cells: Sequence[Cell]) -> list[Cell]:
    """The cells of the seeds that all arms have finished, or all cells if there is no such seed."""
    pending = {cell.seed for cell in cells if not (out / cell.file).exists()}
    return [cell for cell in cells if cell.seed not in pending] or list(cells)


def read_scores(out: Path, cells: Sequence[Cell]) -> dict[str, Scores]:
    """The scores of the arms all of whose cells are finished."""
    arms: dict[str, list[Cell]] = {}
    for cell in cells:
        arms.setdefault(cell.arm, []).append(cell)
    return {
        arm: _scores(out, own)
        for arm, own in arms.items()
        if all((out / cell.file).exists() for cell in own)
    }


def _read_answers(out: Path, cell: Cell) -> Any:
    """A cell's table of answers, which must be about the questions of the benchmark."""
    answers: Any = pq.read_table(out / cell.file)
    questions: Any = pq.read_table(out / QUESTIONS, columns=["id"])
    if not answers["id"].equals(questions["id"]):
        sys.exit(
            f"{out / cell.file}: the answers are to other questions than those of {QUESTIONS}. "
            "Remove the file, and run its cell again."
        )
    return answers


def _scores(out: Path, cells: Sequence[Cell]) -> Scores:
    tables = [_read_answers(out, cell) for cell in cells]
    facts = [read_facts(out / cell.file) for cell in cells]
    return Scores(
        100 * np.array([table["f1"].to_numpy() for table in tables], np.float64),
        np.array([entry["history"][-1].get("validation/f1", np.nan) for entry in facts]),
        facts,
    )


@dataclass(frozen=True)
class Parts:
    """The dev questions of each part, (n,) each, and the context of each question, (n,)."""

    masks: dict[str, BoolArray]
    context_of: IntArray


def read_parts(out: Path) -> Parts:
    """The parts of the dev questions."""
    questions: Any = pq.read_table(out / QUESTIONS)
    part = np.array(questions["part"].to_pylist())
    outside = questions["outside_glove"].to_numpy()
    masks = {name: part == name for name in (DECISION, SELECTION, GENERAL)}
    return Parts(
        {**masks, ALL: part != GENERAL, OUTSIDE: outside}, questions["context_id"].to_numpy()
    )


def table(scores: Mapping[str, Scores], parts: Parts) -> list[dict[str, str]]:
    """A row per arm, with gains over GloVe (see `conditions`)."""
    reference = scores[REFERENCE].f1
    present = {name: mask for name, mask in parts.masks.items() if mask.any()}
    gains = {
        part: corrected_gains(
            {
                arm: (own.f1[:, mask], reference[:, mask])
                for arm, own in scores.items()
                if arm != REFERENCE
            },
            parts.context_of[mask],
        )
        for part, mask in present.items()
    }
    rows = []
    for arm, own in scores.items():
        row = {
            "vectors": ARMS[arm].title,
            "seeds": str(len(own.f1)),
            "F1 on validation": f"{own.validation.mean():.2f}",
        }
        for part, mask in present.items():
            gain, f1 = gains[part].get(arm), own.f1[:, mask].mean(axis=1)
            row[f"{part} ({int(mask.sum()):,}): F1"] = f"{f1.mean():.2f}"
            if len(f1) > 1:
                row[f"{part}: F1 of each seed"] = ", ".join(f"{seed:.2f}" for seed in f1)
            row |= {
                f"{part}: gain, 95 %": gain.text if gain else "reference",
                f"{part}: p (Holm)": f"{gain.p:.3f}" if gain else "–",
            }
        rows.append(row)
    return rows


def conditions(scores: Mapping[str, Scores], precision_of: Mapping[int, str]) -> str:
    """The conditions of the table, in sentences; `precision_of` has the precision of each seed."""
    own = scores[REFERENCE]
    config = own.facts[0]["config"]
    seeds = [f"{seed} ({precision})" for seed, precision in precision_of.items()]
    one = " One seed says nothing about the variation between seeds." if len(seeds) == 1 else ""
    return (
        f"Variant {config['name']}, {config['training']['epochs']} epoch(s), seed(s) "
        f"{', '.join(seeds)}. F1 is in percent; gains are over GloVe. The 95 % intervals are not "
        f"corrected; they are percentiles of {SAMPLES:,} bootstrap samples that draw contexts, "
        f"with all questions about them, and seeds.{one} p-values are two-sided, with Holm's "
        f"correction over the {len(scores) - 1} arms of the table, for each part of the questions. "
        f"* p < {SIGNIFICANT}. The arms of the final were chosen by their scores on {SELECTION}, "
        f"so gains there, on {ALL} and on {OUTSIDE} favour them; {DECISION} and {GENERAL} had no "
        "part in the choice.\n"
    )


def precisions(out: Path, cells: Sequence[Cell]) -> dict[int, str]:
    """The precision of the finished cells of each seed; it must be the same for all arms."""
    found: dict[int, str] = {}
    for cell in cells:
        if not (out / cell.file).exists():
            continue
        facts = read_facts(out / cell.file)
        precision = facts["config"]["training"]["precision"]
        if found.setdefault(cell.seed, precision) != precision:
            sys.exit(
                f"{out / cell.file} was trained in {precision}, and other arms of its seed in "
                f"{found[cell.seed]}. Remove the file, and run its cell again with --precision "
                f"{found[cell.seed]}."
            )
    return found


def vectors_table(scores: Mapping[str, Scores]) -> list[dict[str, str]]:
    """A row per arm: what its vectors add to GloVe, how well they fit it, and how many questions of
    the domain have a word that they lack."""
    rows = []
    for arm, own in scores.items():
        vectors = own.facts[0]["vectors"]
        made = vectors["sets"][-1]
        domain = [vectors["questions"].get(part, {}) for part in (SELECTION, DECISION)]
        rows.append(
            {
                "vectors": ARMS[arm].title,
                "added words": f"{vectors['added']:,}",
                "anchors": f"{made['anchors']:,}" if "anchors" in made else "–",
                "mean cosine": f"{made['cosine']:.2f}" if "cosine" in made else "–",
                **{
                    title: f"{sum(counts.get(place, 0) for counts in domain):,}"
                    for place, title in MISSING.items()
                },
            }
        )
    return rows


def best_arms(scores: Mapping[str, Scores], parts: Parts, count: int) -> list[str]:
    """The arms with the highest sum of F1 on validation and on the selecting half, without the
    reference and the controls."""

    def rank(arm: str) -> float:
        own = scores[arm]
        return float(own.validation.mean() + own.f1[:, parts.masks[SELECTION]].mean())

    return sorted((arm for arm in scores if arm not in CONTROLS), key=rank, reverse=True)[:count]
