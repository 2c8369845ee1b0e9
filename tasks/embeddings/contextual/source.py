"""Finds language models by name: one trained here, its file or folder, or released weights."""

from dataclasses import dataclass
from pathlib import Path

from infra.artifacts.shared_folder import local_path
from infra.errors import UserError
from tasks.embeddings.formats.source import BILM, BILM_SUFFIX, VECTORS, published_folder

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

    Paths below the storage root, and addresses below the root's address, are found as
    `local_path` finds them.

    Raises:
        UserError: there is no such model.
    """
    path = local_path(spec)
    trained = _trained_file(path) or _published_file(spec)
    if trained is not None:
        return trained
    if path.suffix == HDF5:
        local_path(str(path.parent))  # for the options
        weights = [path] if path.is_file() else []
    else:
        weights = sorted(path.glob(f"*{HDF5}"))
    if len(weights) == 1:
        return ReleasedWeights(_options_of(weights[0]), weights[0])
    several = f": it has {len(weights)} .hdf5 files, so name one of them" if weights else ""
    raise UserError(
        f"No language model {spec}{several}. Expected the name of one that `bidaflow embeddings "
        f"train --embedding.method elmo` trained, its {BILM} or folder, or released weights: an "
        ".hdf5 file beside its options.json, or their folder."
    )


def find_start_bilm(spec: str) -> Path:
    """The file of a language model that a training can continue: one that was trained here.

    Raises:
        UserError: there is no such model, or `spec` names released weights.
    """
    found = find_bilm(spec)
    if isinstance(found, ReleasedWeights):
        raise UserError(
            f"start is {spec}, but released weights have no softmax to continue training with. Set "
            "start to a language model that was trained here, or omit it to train from scratch."
        )
    return found


def is_bilm(spec: str) -> bool:
    """Whether `spec` names a language model, or ends as the name of its file does.

    A folder with both is a set of vectors. A folder of released weights counts even if `find_bilm`
    refuses it, so that its error is shown.
    """
    path = local_path(spec)
    if path.suffix in (BILM_SUFFIX, HDF5):
        return True
    if (path / VECTORS).is_file():
        return False
    return (_trained_file(path) or _published_file(spec)) is not None or any(path.glob(f"*{HDF5}"))


def _trained_file(path: Path) -> Path | None:
    """The file of a language model that was trained here: `path` itself, or in this folder."""
    if path.suffix == BILM_SUFFIX and path.is_file():
        return path
    return path / BILM if (path / BILM).is_file() else None


def _published_file(name: str) -> Path | None:
    """The file of the language model that was published under a name, here or elsewhere."""
    folder = published_folder(name)
    return _trained_file(folder) if folder else None


def _options_of(weights: Path) -> Path:
    """The options of released weights: those of the same prefix, or else the only ones beside them.

    The prefix is the part of their names before weights.hdf5 and options.json.
    """
    options = weights.with_name(f"{weights.stem.removesuffix('weights')}options.json")
    if options.is_file():
        return options
    files = sorted(weights.parent.glob("*options.json"))
    if len(files) != 1:
        raise UserError(
            f"{weights.parent} has {len(files)} files named *options.json beside {weights.name}. "
            f"Name the one that belongs to it {options.name}."
        )
    return files[0]
