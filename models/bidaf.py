"""Bi-directional attention flow over words and, where the config has them, characters."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.attention import AttentionFlow
from models.batching import PADDING, Batch
from models.characters import CharacterCNN
from models.config import ModelConfig
from models.layers import Dropout, Highway
from models.output import SpanOutput
from models.recurrent import Encoder


class WordRepresentation(nn.Module):
    """[word vector; character vector] of each token, projected to d, through the highway.

    The word vectors are frozen: they are a buffer, and no part of the weights that are saved.
    """

    word_vectors: Tensor

    def __init__(self, config: ModelConfig, word_vectors: Tensor, characters: int) -> None:
        super().__init__()
        self.register_buffer("word_vectors", word_vectors, persistent=False)
        size = word_vectors.shape[1]
        self.characters: CharacterCNN | None = None
        if config.characters is not None:
            self.characters = CharacterCNN(characters, config.characters)
            size += config.characters.filters
        self.dropout = Dropout(config.dropout)
        self.projection = nn.Linear(size, config.hidden_size, bias=False)
        self.highway = Highway(config.hidden_size)

    def of_types(self, batch: Batch) -> Tensor:
        """The batch's distinct types -> (U, word vector size [+ filters])"""
        vectors = self.word_vectors[batch.type_words]
        if self.characters is None:
            return vectors
        return torch.cat([vectors, self.characters(batch.type_characters)], 1)

    def forward(self, types: Tensor, tokens: Tensor) -> Tensor:
        """(U, size) vectors of types, (B, N) type of each token -> (B, N, d)"""
        gathered = nn.functional.embedding(tokens, types)
        out: Tensor = self.highway(self.projection(self.dropout(gathered)))
        return out


def draw_weights(module: nn.Module) -> None:
    """First weights of linear layers and LSTMs: Glorot uniform as in the original code's
    TensorFlow, an LSTM's recurrent matrices orthogonal, its biases 0 and its forget biases 1.

    PyTorch's own draw is so narrow that what tells two unknown words apart leaves highway and LSTM
    fifty times smaller than it came, and training finds it much later.
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
    if isinstance(module, nn.LSTM):
        for name, parameter in module.named_parameters():
            _draw_gates(name, parameter.data.chunk(4))


def _draw_gates(name: str, gates: tuple[Tensor, ...]) -> None:
    """One parameter of an LSTM, as its parts for the gates i, f, g, o."""
    for gate in gates:
        if name.startswith("weight_ih"):
            nn.init.xavier_uniform_(gate)
        elif name.startswith("weight_hh"):
            nn.init.orthogonal_(gate)
        else:
            nn.init.zeros_(gate)
    if name.startswith("bias_ih"):
        nn.init.ones_(gates[1])


class BiDAF(nn.Module):
    """The model of Seo et al. (2017) in the forms that `ModelConfig` names."""

    def __init__(self, config: ModelConfig, word_vectors: Tensor, characters: int) -> None:
        """`word_vectors` (V, e) float32, rows 0 and 1 zero; `characters`: size of that vocabulary,
        padding and unknown included."""
        super().__init__()
        self.config = config
        d = config.hidden_size
        self.words = WordRepresentation(config, word_vectors, characters)
        self.encoder = Encoder(d, d, 1, config.dropout)
        self.attention = AttentionFlow(2 * d, config.query_to_context, config.dropout)
        self.modeling = Encoder(8 * d, d, 2, config.dropout)
        self.output = SpanOutput(8 * d, d, config.dropout)
        self.apply(draw_weights)

    @property
    def max_characters(self) -> int:
        """Characters of a word that the model looks at."""
        return self.config.characters.max_characters if self.config.characters else 1

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of the answer's first and last token: (B, T) each, MASKED at padding.
        Position 0 is the null token: no answer."""
        types = self.words.of_types(batch)
        context_mask, question_mask = batch.context != PADDING, batch.question != PADDING
        context = self.encoder(self.words(types, batch.context), context_mask)
        question = self.encoder(self.words(types, batch.question), question_mask)
        attention = self.attention(context, question, context_mask, question_mask)
        modeling = self.modeling(attention, context_mask)
        start, end = self.output(attention, modeling, context_mask)
        return start, end
