"""The layers of a language model for the tokens of texts, and padded batches of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor

from models.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class TokenLayers:
    """The layers of each row's tokens: row i begins at token `first[i]`, counted over all chunks.

    Several rows may have the same tokens or parts of them, but none crosses chunks.
    """

    chunks: Sequence[FloatArray]  # (tokens, layers, size) each, maybe memory-mapped
    first: IntArray  # (rows,)

    @classmethod
    def of_texts(cls, texts: Sequence[FloatArray], rows: IntArray) -> Self:
        """Of texts with the layers (tokens, layers, size) each; row i is the text `rows[i]`."""
        starts = np.cumsum([0, *map(len, texts)])
        return cls(texts, starts[rows])

    @cached_property
    def _starts(self) -> IntArray:
        """The first token of each chunk."""
        return np.cumsum([0, *map(len, self.chunks)])[:-1]

    def parts(self, rows: IntArray, shift: IntArray | int = 0) -> "TokenLayers":
        """New rows: parts of the given rows that begin `shift` tokens later."""
        return TokenLayers(self.chunks, self.first[rows] + shift)

    def padded(self, rows: IntArray, lengths: IntArray, width: int) -> Tensor:
        """The first `lengths` tokens of each row, behind a null token: (rows, width, layers, size).

        The null token and padding are zeros.
        """
        like = self.chunks[0]
        out = np.zeros((len(rows), width, *like.shape[1:]), like.dtype)
        firsts = self.first[rows]
        # The last chunk that begins at or before the row, because empty chunks begin there too.
        chunk_of = np.searchsorted(self._starts, firsts, side="right") - 1
        for row, chunk, first, length in zip(
            out, chunk_of, firsts - self._starts[chunk_of], lengths, strict=True
        ):
            row[1 : 1 + length] = self.chunks[chunk][first : first + length]
        return torch.from_numpy(out)
