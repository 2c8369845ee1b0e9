"""A trained variant as the reports show it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.artifacts.manifest import facts_of
from tasks.evaluation.evaluate import Columns, EvaluationSplit, read_predictions


@dataclass(frozen=True)
class VariantResult:
    """One trained variant: its configuration, training history and answers.

    `history` has MLflow's metric names: "epoch", "train/nll", "dev/nll", "dev/em", "dev/f1",
    "examples_per_second", "seconds" (of training since its start).
    """

    name: str
    folder: Path  # of the stage `train`
    facts: Mapping[str, Any]  # of the stage `train`
    config: dict[str, Any]  # nested plain values
    history: Sequence[Mapping[str, float]]  # one row per epoch
    answers: Columns  # to the evaluation split, by the epoch that was kept


def load_variant(folder: Path, split: EvaluationSplit) -> VariantResult:
    """Read a variant from the folder of its stage `train`.

    Raises:
        UserError: its predictions do not match the questions of the evaluation split.
    """
    facts = facts_of(folder)
    return VariantResult(
        facts["variant"],
        folder,
        facts,
        config=json.loads((folder / "config.json").read_text(encoding="utf-8")),
        history=json.loads((folder / "history.json").read_text(encoding="utf-8")),
        answers=read_predictions(folder / "predictions.parquet", split, facts["variant"]),
    )
