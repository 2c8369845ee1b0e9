"""Character CNN: one vector for the characters of a word."""

import torch
from torch import Tensor, nn

from models.configs.variant import CharacterConfig


class CharacterCNN(nn.Module):
    """One vector per word from its characters (Kim et al., 2016): 1-D convolutions of one or
    several widths, ReLU, and the maximum over the windows that hold real characters. Words shorter
    than a kernel are padded to its width."""

    def __init__(self, characters: int, config: CharacterConfig, dropout: nn.Module) -> None:
        """`characters` is the size of the character vocabulary, including padding and unknown;
        `dropout` applies to the character embeddings."""
        super().__init__()
        size = config.embedding_size
        self.embedding = nn.Embedding(characters, size, padding_idx=0)
        self.dropout = dropout
        self.convolutions = nn.ModuleList(
            nn.Conv1d(size, filters, width)
            for width, filters in zip(config.kernel_widths, config.filters, strict=True)
        )
        self.widest = max(config.kernel_widths)

    def forward(self, characters: Tensor) -> Tensor:
        """(U, C) character indices, 0 = padding -> (U, number of filters of all widths)"""
        missing = max(0, self.widest - characters.shape[1])
        characters = nn.functional.pad(characters, (0, missing))
        lengths = (characters != 0).sum(1, keepdim=True)
        vectors = self.dropout(self.embedding(characters)).transpose(1, 2)  # (U, size, C)
        features = [
            _best_features(convolution, vectors, lengths) for convolution in self.convolutions
        ]
        return torch.cat(features, 1)


def _best_features(convolution: nn.Module, vectors: Tensor, lengths: Tensor) -> Tensor:
    """(U, size, C), (U, 1) -> (U, filters): each filter's largest feature over the real windows."""
    features = convolution(vectors)  # (U, filters, C − width + 1)
    width = vectors.shape[2] - features.shape[2] + 1
    windows = torch.arange(features.shape[2], device=vectors.device)
    real = (windows <= (lengths - width).clamp(min=0)).unsqueeze(1)
    # After the ReLU every feature is at least 0, so masking with 0 is masking with -inf.
    longest: Tensor = (features.relu() * real).amax(2)
    return longest
