"""Finds language models by name: one trained here, its file or folder, or released weights."""

from dataclasses import dataclass
from pathlib import Path

from infra.errors import UserError
from infra.settings import settings
from tasks.embeddings.formats.source import BILM, BILM_SUFFIX
from tasks.embeddings.formats.store import VECTORS

HDF5 = ".hdf5"


@dataclass(frozen=True)
class ReleasedWeights:
    """The files of a released model, so that a stage's digest covers their content.

    `str` gives the path of the weights.
    """

    options: Path
    weights: Path

    def __str__(self) -> str:
        return str(self.weights)


# A language model as stages take it.
BilmInput = Path | ReleasedWeights


def find_bilm(spec: str) -> BilmInput:
    """The files of a language model: the name of one in .bidaflow/embeddings, a bilm.safetensors or
    its folder, or released weights (an .hdf5 beside its options.json, or their folder).

    Raises:
        UserError: there is no such model.
    """
    path = Path(spec).expanduser()
    places = [path, settings().root.resolve() / "embeddings" / spec]
    for place in places:
        if place.is_file() and place.suffix == BILM_SUFFIX:
            return place
        if (place / BILM).is_file():
            return place / BILM
    if path.suffix == HDF5 and path.is_file():
        return ReleasedWeights(_only_options(path.parent), path)
    weights = sorted(path.glob(f"*{HDF5}")) if path.is_dir() else []
    if len(weights) == 1:
        return ReleasedWeights(_only_options(path), weights[0])
    several = f": it has {len(weights)} .hdf5 files, so name one of them" if weights else ""
    raise UserError(
        f"No language model {spec}{several}. Expected the name of one that `bidaflow embeddings "
        f"train --embedding.method elmo` trained, its {BILM} or folder, or released weights: an "
        ".hdf5 file beside its options.json, or their folder."
    )


def is_bilm(spec: str) -> bool:
    """Whether `find_bilm` finds a language model, or `spec` ends as the name of its file does.

    A folder with both is a set of vectors.
    """
    if Path(spec).suffix in (BILM_SUFFIX, HDF5):
        return True
    if (Path(spec).expanduser() / VECTORS).is_file():
        return False
    try:
        find_bilm(spec)
    except UserError:
        return False
    return True


def _only_options(folder: Path) -> Path:
    """The options of released weights, whose names end in options.json."""
    files = sorted(folder.glob("*options.json"))
    if len(files) != 1:
        raise UserError(
            f"{folder} has {len(files)} files named *options.json beside the weights; expected "
            "the one that belongs to them."
        )
    return files[0]
