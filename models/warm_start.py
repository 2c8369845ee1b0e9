"""Warm start: weights that are copied from an earlier model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

CHARACTER_EMBEDDING = "words.characters.embedding.weight"
TRAINED_WORDS = "words.unknown.vectors"
"""Parameters with one row per symbol: a character, or a word without a pretrained vector."""


@dataclass(frozen=True)
class WarmStartResult:
    """The parameters that a warm start copied, and those initialised from scratch."""

    parameters: list[str]
    fresh: list[str]
    """Parameters that the earlier model lacks or has in another shape."""
    share: float
    """Share of the model's weights that were copied (0 to 1)."""
    rows: dict[str, int]
    """Rows copied of each parameter with one row per symbol; the other rows are new."""


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
    fresh = []
    for name, parameter in model.named_parameters():
        before = weights.get(name)
        if before is not None and name in symbols:
            common = _common_rows(*symbols[name])
            before = _replace_rows(parameter, before, common)
            rows[name] = len(common)
        if before is None or before.shape != parameter.shape:
            _require_same_shape(name, before, parameter)
            fresh.append(name)
            continue
        parameter.copy_(before)
        copied[name] = rows[name] * parameter.shape[1] if name in rows else parameter.numel()
    share = sum(copied.values()) / sum(parameter.numel() for parameter in model.parameters())
    return WarmStartResult(list(copied), fresh, share, {n: rows[n] for n in rows if n in copied})


def _common_rows(before: Sequence[str], now: Sequence[str]) -> list[tuple[int, int]]:
    """Row pairs of the symbols in both vocabularies: row in the earlier one, row in this one."""
    earlier_rows = {symbol: row for row, symbol in enumerate(before)}
    return [(earlier_rows[symbol], row) for row, symbol in enumerate(now) if symbol in earlier_rows]


def _replace_rows(now: Tensor, before: Tensor, rows: list[tuple[int, int]]) -> Tensor:
    """The current embedding with the rows of common symbols copied from the earlier one; the
    earlier one itself if their widths differ, so that the caller sees the other shape."""
    if before.shape[1] != now.shape[1]:
        return before
    merged = now.detach().clone()
    merged[[row for _, row in rows]] = before[[row for row, _ in rows]]
    return merged


def _require_same_shape(name: str, before: Tensor | None, now: Tensor) -> None:
    if before is None or name.startswith("words."):
        return
    shapes = [" × ".join(map(str, tensor.shape)) for tensor in (before, now)]
    raise ValueError(f"the shape of {name} is {shapes[0]}, but the new model needs {shapes[1]}")
