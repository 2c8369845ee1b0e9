"""A run's answers to the questions of a split, read from the file that its evaluation wrote."""

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
    """The answers in a predictions.parquet; `name` is its run's, for the sentence.

    Raises:
        UserError: they are not those of every question of the split.
    """
    table = pq.read_table(file)
    if table["id"].to_pylist() != split.ids:
        raise UserError(
            f"{file} holds {table.num_rows} predictions that do not match the {len(split)} "
            f"questions of the evaluation split; evaluate {name!r} again."
        )
    return {column: table[column].to_numpy() for column in table.column_names}


def mean(scores: npt.NDArray[np.floating], rows: npt.NDArray[np.bool_]) -> float:
    """The mean of some rows' scores, as a percentage."""
    return 100 * float(scores[rows].mean())
