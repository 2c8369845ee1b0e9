"""Reads a run's answers to a split from the predictions.parquet that its evaluation wrote."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from infra.errors import UserError
from tasks.evaluation.evaluate import EvaluationSplit

Columns = dict[str, npt.NDArray[Any]]
"""The columns of predictions.parquet, (n,) each, in the split's order."""


def read_predictions(file: Path, split: EvaluationSplit, name: str) -> Columns:
    """The columns of a predictions.parquet; error messages call its run `name`.

    Raises:
        UserError: the ids differ from those of the split's questions, or their order does.
    """
    table = pq.read_table(file)
    if table["id"].to_pylist() != split.ids:
        raise UserError(
            f"{file}: the ids of the {table.num_rows} predictions do not match the {len(split)} "
            f"questions of the evaluation split. Evaluate {name!r} again."
        )
    return {column: table[column].to_numpy() for column in table.column_names}


def mean(scores: npt.NDArray[np.floating], rows: npt.NDArray[np.bool_]) -> float:
    """The mean score (0..1) of the rows that the mask selects, as a percentage; both (n,)."""
    return 100 * float(scores[rows].mean())
