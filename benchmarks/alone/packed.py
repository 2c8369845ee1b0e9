"""The data that `pack` gathered in a folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from models.batching import Examples, Types
from tasks.evaluation.epoch_scores import EvaluatedSplit
from tasks.evaluation.evaluate import load_split
from tasks.text.encoded import load_encoded, load_types

# The folders of a split within that of its name.
ENCODED, INGESTED = "encoded", "ingested"
ABOUT, VECTORS = "about.json", "vectors.npy"


@dataclass(frozen=True)
class Packed:
    """What trainings read."""

    folder: Path
    about: dict[str, Any]  # the dataset's name, and its number of characters
    train: Examples
    evaluated: dict[str, EvaluatedSplit]  # "validation", unless there is none, and "dev"
    types: Types
    vectors: torch.Tensor

    @classmethod
    def load(cls, folder: Path) -> "Packed":
        """Load the data from the folder."""
        return cls(
            folder,
            json.loads((folder / ABOUT).read_text(encoding="utf-8")),
            load_encoded(folder / "train" / ENCODED),
            {
                name: EvaluatedSplit(
                    load_split(folder / name / INGESTED), load_encoded(folder / name / ENCODED)
                )
                for name in ("validation", "dev")
                if (folder / name).exists()
            },
            load_types(folder),
            torch.from_numpy(np.load(folder / VECTORS)),
        )
