"""Warm start: weights that are copied from an earlier model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

CHARACTER_EMBEDDING = "words.characters.embedding.weight"
# Parameters with one row per symbol: a character, or a word without a pretrained vector.
TRAINED_WORDS = "words.unknown.vectors"


@dataclass(frozen=True)
class WarmStartResult:
    """The parameters that a warm start copied, and those initialised from scratch."""

    parameters: list[str]
    fresh: list[str]  # those that the earlier model lacks or has in another shape
    share: float  # of the model's weights that were copied (0 to 1)
    rows: dict[str, int]  # copied of each parameter with one row per symbol; the others are new


@torch.no_grad()
def copy_weights(
    model: nn.Module,
    weights: Mapping[str, Tensor],
    symbols: Mapping[str, tuple[Sequence[str], Sequence[str]]],
) -> WarmStartResult:
    """Copy an earlier model's weights into a new one: by name if the shapes match, and by symbol if
    the parameter has one row per symbol, since the vocabularies may differ.

    `symbols`: for each such parameter, the symbols of its rows in the earlier and in the new model.

    Raises:
        ValueError: a layer above the word representation has another shape.
    """
    copied, rows = {}, {}
    parameters = dict(model.named_parameters())
    for name, now in parameters.items():
        if name not in weights:
            continue
        before = weights[name]
        if name in symbols and now.shape[1] == before.shape[1]:
            rows[name] = _copy_common_rows(now, before, *symbols[name])
            copied[name] = rows[name] * now.shape[1]
        elif name not in symbols and now.shape == before.shape:
            now.copy_(before)
            copied[name] = now.numel()
        elif not name.startswith("words."):
            shapes = [" × ".join(map(str, tensor.shape)) for tensor in (before, now)]
            raise ValueError(
                f"the shape of {name} is {shapes[0]}, but the new model needs {shapes[1]}"
            )
    fresh = [name for name in parameters if name not in copied]
    share = sum(copied.values()) / sum(parameter.numel() for parameter in parameters.values())
    return WarmStartResult(list(copied), fresh, share, rows)


def _copy_common_rows(
    now: Tensor, before: Tensor, symbols_before: Sequence[str], symbols_now: Sequence[str]
) -> int:
    """Copy the rows of the symbols in both vocabularies, in place; return their number."""
    row_before = {symbol: row for row, symbol in enumerate(symbols_before)}
    common = [row for row, symbol in enumerate(symbols_now) if symbol in row_before]
    now[common] = before[[row_before[symbols_now[row]] for row in common]]
    return len(common)
