"""Bi-directional attention flow over words and, where the config has them, characters."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.attention import AttentionFlow
from models.batching import PADDING, Batch
from models.characters import CharacterCNN
from models.config import ModelConfig
from models.layers import Dropouts, Highway
from models.output import ChainedOutput, SpanOutput
from models.recurrent import Encoder
from models.self_attention import ResidualSelfAttention, SelfMatching


class TrainedUnknown(nn.Module):
    """Trained vectors of the words whose given vector is zero; zero for all others, and padding."""

    row: Tensor

    def __init__(self, word_vectors: Tensor) -> None:
        """`word_vectors` (V, e), of which row 0 is padding."""
        super().__init__()
        lacking = (word_vectors == 0).all(1)
        lacking[0] = False
        self.register_buffer("row", lacking.cumsum(0) * lacking, persistent=False)
        self.vectors = nn.Parameter(torch.zeros(int(lacking.sum()), word_vectors.shape[1]))

    def forward(self, words: Tensor) -> Tensor:
        """(U,) indices -> (U, e)"""
        fixed = self.vectors.new_zeros(1, self.vectors.shape[1])
        return nn.functional.embedding(self.row[words], torch.cat([fixed, self.vectors]))


class WordRepresentation(nn.Module):
    """[word vector; character vector] of each token, as it is or projected to d, through the
    highway where the config has one.

    The word vectors are frozen: they are a buffer, and no part of the weights that are saved. Where
    the config says so, each word without one has a trained vector that begins at zero.
    """

    word_vectors: Tensor

    def __init__(self, config: ModelConfig, word_vectors: Tensor, characters: int) -> None:
        super().__init__()
        if not config.word_vectors:
            word_vectors = word_vectors[:, :0]
        self.register_buffer("word_vectors", word_vectors, persistent=False)
        self.unknown: TrainedUnknown | None = None
        if config.unknown_words == "trainable" and config.word_vectors:
            self.unknown = TrainedUnknown(word_vectors)
        dropouts = Dropouts(config)
        self.size = word_vectors.shape[1]
        self.characters: CharacterCNN | None = None
        if config.characters is not None:
            self.characters = CharacterCNN(characters, config.characters, dropouts.characters)
            self.size += config.characters.size
        self.dropout = dropouts.embeddings
        self.projection: nn.Module = nn.Identity()
        if config.highway == "projected":
            self.projection = nn.Linear(self.size, config.hidden_size, bias=False)
            self.size = config.hidden_size
        self.highway = nn.Identity() if config.highway == "none" else Highway(self.size)

    def of_types(self, batch: Batch) -> Tensor:
        """The batch's distinct types -> (U, word vector size [+ filters])"""
        vectors = self.word_vectors[batch.type_words]
        if self.unknown is not None:
            vectors = vectors + self.unknown(batch.type_words)
        if self.characters is None:
            return vectors
        return torch.cat([vectors, self.characters(batch.type_characters)], 1)

    def forward(self, types: Tensor, tokens: Tensor) -> Tensor:
        """(U, size) vectors of types, (B, N) type of each token -> (B, N, size)"""
        gathered = nn.functional.embedding(tokens, types)
        out: Tensor = self.highway(self.projection(self.dropout(gathered)))
        return out


def draw_weights(module: nn.Module) -> None:
    """First weights of linear and recurrent layers: Glorot uniform as in the original code's
    TensorFlow, recurrent matrices orthogonal, recurrent biases 0 and an LSTM's forget biases 1.

    PyTorch's own draw is so narrow that what tells two unknown words apart leaves highway and LSTM
    fifty times smaller than it came, and training finds it much later.
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
    if isinstance(module, nn.LSTM | nn.GRU):
        for name, parameter in module.named_parameters():
            gates = parameter.data.chunk(len(parameter) // module.hidden_size)
            _draw_gates(name, gates, isinstance(module, nn.LSTM))


def _draw_gates(name: str, gates: tuple[Tensor, ...], of_lstm: bool) -> None:
    """One parameter of a recurrent layer, as its parts for each gate (an LSTM's: i, f, g, o)."""
    for gate in gates:
        if name.startswith("weight_ih"):
            nn.init.xavier_uniform_(gate)
        elif name.startswith("weight_hh"):
            nn.init.orthogonal_(gate)
        else:
            nn.init.zeros_(gate)
    if of_lstm and name.startswith("bias_ih"):
        nn.init.ones_(gates[1])


def _modeling_layer(config: ModelConfig, size: int) -> nn.Module:
    """(B, T, size), (B, T) -> M (B, T, 2d)"""
    if config.self_attention == "trilinear":
        return ResidualSelfAttention(config, size)
    return Encoder(config, size, 2)


def _output_layer(config: ModelConfig, attention_size: int) -> nn.Module:
    """G (B, T, attention_size), M (B, T, 2d), (B, T) -> logits of start and end, (B, T) each"""
    if config.end_pointer == "chained":
        return ChainedOutput(config)
    if config.output_reads == "self-attention":
        attention_size = 2 * config.hidden_size
    return SpanOutput(config, attention_size)


class BiDAF(nn.Module):
    """The model of Seo et al. (2017) in the forms that `ModelConfig` names."""

    def __init__(self, config: ModelConfig, word_vectors: Tensor, characters: int) -> None:
        """`word_vectors` (V, e) float32, rows 0 and 1 zero; `characters`: size of that vocabulary,
        padding and unknown included."""
        super().__init__()
        self.config = config
        width = 2 * config.hidden_size
        self.words = WordRepresentation(config, word_vectors, characters)
        self.encoder = Encoder(config, self.words.size, 1)
        self.attention = AttentionFlow(width, config.query_to_context, Dropouts(config).similarity)
        size = 4 * width
        self.matching: SelfMatching | None = None
        if config.self_attention in ("additive", "dot", "elementwise"):
            self.matching = SelfMatching(config, size)
        self.modeling = _modeling_layer(config, width if self.matching else size)
        self.output = _output_layer(config, size)
        self.apply(draw_weights)

    @property
    def max_characters(self) -> int:
        """Characters of a word that the model looks at."""
        return self.config.characters.max_characters if self.config.characters else 1

    def read(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """H (B, T, 2d), U (B, J, 2d), and where they are no padding: (B, T), (B, J)"""
        types = self.words.of_types(batch)
        context_mask, question_mask = batch.context != PADDING, batch.question != PADDING
        context = self.encoder(self.words(types, batch.context), context_mask)
        question = self.encoder(self.words(types, batch.question), question_mask)
        return context, question, context_mask, question_mask

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of the answer's first and last token: (B, T) each, MASKED at padding.
        Position 0 is the null token: no answer."""
        context, question, context_mask, question_mask = self.read(batch)
        attention = self.attention(context, question, context_mask, question_mask)
        matched = self.matching(attention, context_mask) if self.matching else attention
        modeling = self.modeling(matched, context_mask)
        read = matched if self.config.output_reads == "self-attention" else attention
        start, end = self.output(read, modeling, context_mask)
        return start, end
