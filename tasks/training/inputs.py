"""The folders that a training reads."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SplitFolders:
    """A split as it was ingested, and as type ids."""

    ingested: Path
    encoded: Path


@dataclass(frozen=True)
class TrainingData:
    """All that a training learns from and is scored on. What is decided while it goes on, is
    decided on `validation`; `dev` is only reported. `start_from` holds model/, whose weights the
    training starts with."""

    train: SplitFolders
    dev: SplitFolders
    vocabulary: Path
    vectors: Path
    validation: SplitFolders | None = None
    start_from: Path | None = None
