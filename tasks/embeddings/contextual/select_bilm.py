"""Selects the language model that trainings read: its weights without softmax and vocabulary."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.embeddings.contextual.source import BilmInput, ReleasedWeights
from tasks.embeddings.formats.source import BILM, short_name

if TYPE_CHECKING:
    from tasks.embeddings.contextual.frozen_bilm import FrozenBiLM

# Modules that load torch are imported locally: flows import this file, and torch takes seconds.


def select_bilm(out: Path, source: BilmInput) -> dict[str, Any]:
    """Write bilm.safetensors and bilm.json of a model trained here or of released weights.

    Raises:
        UserError: its files can't be read.
    """
    frozen, history = read_bilm(source)
    frozen.save(out)
    layers, size = frozen.bilm.config.layers_shape
    return {
        "source": short_name(str(source)),
        "layers": layers,
        "dimension": size,
        "parameters": sum(tensor.numel() for tensor in frozen.bilm.parameters()),
        "history": history,
    }


def copy_bilm(out: Path, source: Path) -> dict[str, Any]:
    """Copy a language model that was trained here, as a stage that the nodes of a cluster fetch."""
    shutil.copyfile(source, out / BILM)
    return {"source": short_name(str(source))}


def read_bilm(source: BilmInput) -> "tuple[FrozenBiLM, dict[str, Any]]":
    """A language model and its history; released models read cased words.

    Raises:
        UserError: its files can't be read.
    """
    from tasks.embeddings.contextual.bilm_file import load_bilm
    from tasks.embeddings.contextual.frozen_bilm import FrozenBiLM
    from tasks.embeddings.contextual.released_weights import load_released

    if isinstance(source, ReleasedWeights):
        bilm = load_released(source.options, source.weights)
        return FrozenBiLM(bilm, lower_case=False), {"method": "elmo", "lower_case": False}
    trained = load_bilm(source)
    lower_case = bool(trained.history["lower_case"])
    return FrozenBiLM(trained.model.bilm, lower_case), trained.history
