"""The input folders of a training."""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tasks.tracking.runs import Split

T = TypeVar("T")


@dataclass(frozen=True)
class SplitFolders:
    """The folders of a split: ingested, and encoded as type ids."""

    ingested: Path
    encoded: Path


@dataclass(frozen=True)
class TrainingData:
    """All data that a training learns from and is evaluated on.

    Decisions during training are based on `validation`; scores on `dev` are only reported. For a
    warm start, `start_from` is a folder with model/, whose weights initialise the training.
    """

    train: SplitFolders
    dev: SplitFolders
    vocabulary: Path
    vectors: Path
    validation: SplitFolders | None = None
    start_from: Path | None = None

    @property
    def splits(self) -> dict[Split, SplitFolders]:
        """The splits that exist, train first and dev last."""
        return existing_splits(self.train, self.validation, self.dev)


def existing_splits(train: T, validation: T | None, dev: T) -> dict[Split, T]:
    """The splits that exist by name, train first and dev last; there may be no validation."""
    splits: dict[Split, T | None] = {"train": train, "validation": validation, "dev": dev}
    return {name: split for name, split in splits.items() if split is not None}
