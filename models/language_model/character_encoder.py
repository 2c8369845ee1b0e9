"""The character CNN of ELMo: a vector for each word, from its characters alone."""

import torch
from torch import Tensor, nn

from models.language_model.characters import CHARACTERS, PADDING, WIDTH
from models.language_model.config import BiLMConfig
from models.modules.layers import Highway

# Words are convolved in groups of at most so many ids, because most words are short.
GROUP_LIMITS = (8, 14, WIDTH)
CARRY_BIAS = -2.0  # highways start by carrying their input


class CharacterEncoder(nn.Module):
    """Convolutions of several widths, maximum over positions, ReLU, highways, projection.

    Padding is a character like any other: its embedding is learned, and takes part in the maximum.
    """

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, config.character_size)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.character_size, filters, width) for width, filters in config.filters
        )
        self.widest = max(width for width, _ in config.filters)
        size = sum(filters for _, filters in config.filters)
        self.highway = Highway(size, config.highways)
        for gate in self.highway.gates:
            nn.init.constant_(gate.bias, CARRY_BIAS)  # type: ignore[arg-type]
        self.projection = nn.Linear(size, config.projection_size)

    def forward(self, characters: Tensor) -> Tensor:
        """(words, 50) character ids -> (words, projection size)"""
        lengths = (characters != PADDING).sum(1)
        groups = torch.bucketize(lengths, torch.tensor(GROUP_LIMITS, device=characters.device))
        order = groups.argsort(stable=True)
        sizes = groups.bincount(minlength=len(GROUP_LIMITS)).tolist()
        features = [
            self._features(group[:, : limit + self.widest])
            for limit, group in zip(
                GROUP_LIMITS, torch.split(characters[order], sizes), strict=True
            )
            if len(group)
        ]
        vectors: Tensor = self.projection(self.highway(torch.cat(features)))
        return vectors[order.argsort()]

    def _features(self, characters: Tensor) -> Tensor:
        """(words, n) -> (words, filters). One window of padding has the features of any other, so
        the maximum needs at most `widest` ids of padding."""
        embedded = self.embedding(characters).transpose(1, 2)
        maxima = [convolution(embedded).amax(2) for convolution in self.convolutions]
        return torch.cat(maxima, 1).relu()
