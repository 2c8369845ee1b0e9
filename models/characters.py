"""From the characters of a word to one vector."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.config import CharacterConfig


class CharacterCNN(nn.Module):
    """Characters of words -> one vector a word (Kim, 2015): 1-D convolution, ReLU, max over
    the windows that hold real characters. Words shorter than the kernel are padded to it."""

    def __init__(self, characters: int, config: CharacterConfig) -> None:
        super().__init__()
        self.kernel_width = config.kernel_width
        self.embedding = nn.Embedding(characters, config.embedding_size, padding_idx=0)
        self.convolution = nn.Conv1d(config.embedding_size, config.filters, config.kernel_width)

    def forward(self, characters: Tensor) -> Tensor:
        """(U, C) character indices, 0 = padding -> (U, filters)"""
        missing = max(0, self.kernel_width - characters.shape[1])
        characters = F.pad(characters, (0, missing))
        features = self.convolution(self.embedding(characters).transpose(1, 2))  # (U, filters, W)
        lengths = (characters != 0).sum(1, keepdim=True)
        last_window = (lengths - self.kernel_width).clamp(min=0)
        windows = torch.arange(features.shape[2], device=characters.device)
        real = (windows <= last_window).unsqueeze(1)
        # After the ReLU every feature is at least 0, so masking with 0 is masking with -inf.
        best: Tensor = (features.relu() * real).amax(2)
        return best
