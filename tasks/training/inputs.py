"""The input folders of a training."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tasks.embeddings.contextual.stored_layers import load_layers
from tasks.tracking.runs import Split

if TYPE_CHECKING:
    from models.batching import Examples

# tasks.text.encoded is imported locally: flows import this file, and torch takes seconds to load.

T = TypeVar("T")


@dataclass(frozen=True)
class SplitFolders:
    """The folders of a split: ingested, encoded as type ids, and with contextual layers if the
    variant reads them."""

    ingested: Path
    encoded: Path
    layers: Path | None = None

    def examples(self) -> "Examples":
        """The split's examples, with contextual layers if it has any."""
        from tasks.text.encoded import load_encoded

        examples = load_encoded(self.encoded)
        if self.layers is None:
            return examples
        layers = load_layers(self.layers)
        return replace(examples, context_layers=layers.contexts, question_layers=layers.questions)


@dataclass(frozen=True)
class TrainingData:
    """All data that a training learns from and is evaluated on.

    Decisions during training are based on `validation`; scores on `dev` are only reported. For a
    warm start, `start_from` is a folder with model/, whose weights initialise the training. `bilm`
    is the folder of the language model of a variant with contextual vectors.
    """

    train: SplitFolders
    dev: SplitFolders
    vocabulary: Path
    vectors: Path
    validation: SplitFolders | None = None
    start_from: Path | None = None
    bilm: Path | None = None

    @property
    def splits(self) -> dict[Split, SplitFolders]:
        """The splits that exist, train first and dev last."""
        return existing_splits(self.train, self.validation, self.dev)


def existing_splits(train: T, validation: T | None, dev: T) -> dict[Split, T]:
    """The splits that exist by name, train first and dev last; there may be no validation."""
    splits: dict[Split, T | None] = {"train": train, "validation": validation, "dev": dev}
    return {name: split for name, split in splits.items() if split is not None}
