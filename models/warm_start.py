"""Warm start: weights that a model takes over from an earlier model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

CHARACTER_EMBEDDING = "words.characters.embedding.weight"
TRAINED_WORDS = "words.unknown.vectors"
"""Parameters with one row per symbol: a character, or a word without a pretrained vector."""


@dataclass(frozen=True)
class CarriedOver:
    """The parameters that a model took over, and those initialised from scratch."""

    parameters: list[str]
    fresh: list[str]
    """Parameters that the earlier model lacks or has in another shape."""
    share: float
    """Share of the model's numbers that were taken over (0 to 1)."""
    rows: dict[str, int]
    """Rows taken over of each parameter with one row per symbol; the other rows are new."""


@torch.no_grad()
def carry_over(
    model: nn.Module,
    weights: Mapping[str, Tensor],
    symbols: Mapping[str, tuple[Sequence[str], Sequence[str]]],
) -> CarriedOver:
    """Copy an earlier model's weights into a new one: by name if the shapes match, and by symbol if
    the parameter has one row per symbol, since the vocabularies may differ.

    `symbols`: for each such parameter, the symbols of its rows in the earlier and in the new model.

    Raises:
        ValueError: a layer above the word representation has another shape.
    """
    taken, rows = {}, {}
    fresh = []
    for name, parameter in model.named_parameters():
        before = weights.get(name)
        if before is not None and name in symbols:
            common = _common(*symbols[name])
            before = _rows_exchanged(parameter, before, common)
            rows[name] = len(common)
        if before is None or before.shape != parameter.shape:
            _require_same_shape(name, before, parameter)
            fresh.append(name)
            continue
        parameter.copy_(before)
        taken[name] = rows[name] * parameter.shape[1] if name in rows else parameter.numel()
    share = sum(taken.values()) / sum(parameter.numel() for parameter in model.parameters())
    return CarriedOver(list(taken), fresh, share, {n: rows[n] for n in rows if n in taken})


def _common(before: Sequence[str], now: Sequence[str]) -> list[tuple[int, int]]:
    """Row pairs of the symbols in both vocabularies: row in the earlier one, row in this one."""
    places = {symbol: row for row, symbol in enumerate(before)}
    return [(places[symbol], row) for row, symbol in enumerate(now) if symbol in places]


def _rows_exchanged(now: Tensor, before: Tensor, rows: list[tuple[int, int]]) -> Tensor:
    """The current embedding with the rows of common symbols copied from the earlier one; the
    earlier one itself if their widths differ, so that the caller sees the other shape."""
    if before.shape[1] != now.shape[1]:
        return before
    mixed = now.detach().clone()
    mixed[[row for _, row in rows]] = before[[row for row, _ in rows]]
    return mixed


def _require_same_shape(name: str, before: Tensor | None, now: Tensor) -> None:
    if before is None or name.startswith("words."):
        return
    shapes = [" × ".join(map(str, tensor.shape)) for tensor in (before, now)]
    raise ValueError(f"its {name} is {shapes[0]}, and here it must be {shapes[1]}")
