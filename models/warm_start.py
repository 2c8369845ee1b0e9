"""Weights that a model takes over from one that was trained before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

CHARACTER_EMBEDDING = "words.characters.embedding.weight"
TRAINED_WORDS = "words.unknown.vectors"
"""The parameters that have a row for each symbol: a character, or a word without a given vector."""


@dataclass(frozen=True)
class CarriedOver:
    """What a model took over, and what starts anew."""

    parameters: list[str]
    fresh: list[str]
    """Parameters that the earlier model lacks, or has in another shape."""
    share: float
    """Numbers taken over, of all the model's."""
    rows: dict[str, int]
    """Of the parameters with a row for each symbol: how many rows, the others starting anew."""


@torch.no_grad()
def carry_over(
    model: nn.Module,
    weights: Mapping[str, Tensor],
    symbols: Mapping[str, tuple[Sequence[str], Sequence[str]]],
) -> CarriedOver:
    """Put an earlier model's weights into a new one: by name where the shape is the same, and by
    symbol where a row belongs to each, since the vocabularies may differ.

    `symbols`: for such parameters, what their rows stand for, in the earlier model and in this.

    Raises:
        ValueError: a layer above the words' representation has another shape.
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
    """Rows of the symbols that both have: in the earlier vocabulary, and in this one."""
    places = {symbol: row for row, symbol in enumerate(before)}
    return [(places[symbol], row) for row, symbol in enumerate(now) if symbol in places]


def _rows_exchanged(now: Tensor, before: Tensor, rows: list[tuple[int, int]]) -> Tensor:
    """The embedding as it is, but with the earlier one's rows of the common symbols."""
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
