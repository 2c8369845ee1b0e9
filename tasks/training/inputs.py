"""The input folders of a training."""

from dataclasses import dataclass
from pathlib import Path

from tasks.tracking.runs import Split


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
        splits: dict[Split, SplitFolders | None] = {
            "train": self.train,
            "validation": self.validation,
            "dev": self.dev,
        }
        return {name: folders for name, folders in splits.items() if folders is not None}
