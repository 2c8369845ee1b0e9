"""BiDAF as it is usually written, for comparison with ours: the same sizes and arithmetic.

- The characters of every token are encoded, padding included, even if a word occurs repeatedly.
- Batches are taken in random order, so each batch is as long as its longest context.
- Each layer is one bidirectional `nn.LSTM`: on packed sequences, as in the CS224n starter, or on
  padded ones. On padded ones its backward direction reads the padding first, which is faster but
  not exact.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from models.batching import PADDING, Batch
from models.configs.variant import ModelConfig
from models.modules.attention import AttentionFlow
from models.modules.char_cnn import CharacterCNN
from models.modules.layers import Highway
from models.modules.mask import Mask

DROPOUT = 0.2


class BidirectionalLSTM(nn.Module):
    """`layers` bidirectional layers over real tokens (packed) or over all positions (padded)."""

    def __init__(self, input_size: int, hidden_size: int, layers: int, packed: bool) -> None:
        super().__init__()
        self.packed = packed
        self.lstm = nn.LSTM(
            input_size,
            hidden_size,
            layers,
            batch_first=True,
            bidirectional=True,
            dropout=DROPOUT if layers > 1 else 0.0,
        )

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, N, input_size), (B, N) -> (B, N, 2·hidden_size)"""
        if not self.packed:
            out, _ = self.lstm(x)
        else:
            rows = pack_padded_sequence(x, mask.sum(1).cpu(), True, enforce_sorted=False)
            out, _ = pad_packed_sequence(self.lstm(rows)[0], True, total_length=x.shape[1])
        return F.dropout(out, DROPOUT, self.training)


class ReferenceBiDAF(nn.Module):
    """Word and character embeddings, highway, contextual encoder, attention flow, modeling,
    output."""

    word_vectors: Tensor

    def __init__(
        self, config: ModelConfig, word_vectors: Tensor, characters: int, packed: bool
    ) -> None:
        super().__init__()
        self.config = config
        d = config.hidden_size
        self.register_buffer("word_vectors", word_vectors)
        self.characters: CharacterCNN | None = None
        size = word_vectors.shape[1]
        if config.characters is not None:
            self.characters = CharacterCNN(characters, config.characters, nn.Dropout(0.0))
            size += config.characters.size
        self.projection = nn.Linear(size, d, bias=False)
        self.highway = Highway(d)
        self.encoder = BidirectionalLSTM(d, d, 1, packed)
        self.attention = AttentionFlow(2 * d, config.query_to_context, nn.Dropout(DROPOUT))
        self.modeling = BidirectionalLSTM(8 * d, d, 2, packed)
        self.end_encoder = BidirectionalLSTM(2 * d, d, 1, packed)
        self.start, self.end = nn.Linear(10 * d, 1), nn.Linear(10 * d, 1)

    @property
    def max_characters(self) -> int:
        """Number of characters that the model reads of a word."""
        return self.config.characters.max_characters if self.config.characters else 1

    def words(self, batch: Batch, tokens: Tensor) -> Tensor:
        """(B, N) -> (B, N, d); encodes the characters of every token, repeated words included"""
        vectors = self.word_vectors[batch.type_words[tokens]]
        if self.characters is not None:
            char_vectors = self.characters(batch.type_characters[tokens.flatten()])
            vectors = torch.cat([vectors, char_vectors.view(*tokens.shape, -1)], 2)
        out: Tensor = self.highway(self.projection(F.dropout(vectors, DROPOUT, self.training)))
        return out

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of the answer's first and last token, (B, T) each"""
        context_mask, question_mask = batch.context != PADDING, batch.question != PADDING
        context = self.encoder(self.words(batch, batch.context), context_mask)
        question = self.encoder(self.words(batch, batch.question), question_mask)
        attention = self.attention(context, question, Mask(context_mask), Mask(question_mask))
        modeling = self.modeling(attention, context_mask)
        end_states = self.end_encoder(modeling, context_mask)
        start = self.start(torch.cat([attention, modeling], 2)).squeeze(2)
        end = self.end(torch.cat([attention, end_states], 2)).squeeze(2)
        return start.masked_fill(~context_mask, -1e30), end.masked_fill(~context_mask, -1e30)
