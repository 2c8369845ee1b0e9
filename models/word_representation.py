"""The embedding of a token: word vector, character vector, highway network."""

import torch
from torch import Tensor, nn

from models.batching import Batch
from models.configs.variant import ModelConfig
from models.modules.char_cnn import CharacterCNN
from models.modules.layers import Dropouts, Highway


class TrainedUnknown(nn.Module):
    """Trained vectors of words whose pretrained vector is zero; zero for all others and padding."""

    row: Tensor

    def __init__(self, word_vectors: Tensor, size: int) -> None:
        """`word_vectors` (V, e), with padding in row 0; the trained vectors have `size` numbers."""
        super().__init__()
        missing = (word_vectors == 0).all(1)
        missing[0] = False
        self.register_buffer("row", missing.cumsum(0) * missing, persistent=False)
        self.vectors = nn.Parameter(torch.zeros(int(missing.sum()), size))

    def forward(self, words: Tensor) -> Tensor:
        """(U,) indices -> (U, e)"""
        fixed = self.vectors.new_zeros(1, self.vectors.shape[1])
        return nn.functional.embedding(self.row[words], torch.cat([fixed, self.vectors]))


class WordRepresentation(nn.Module):
    """[word vector; character vector] of each token, optionally projected to d, and passed through
    the highway network if configured.

    The word vectors are frozen: they are a buffer and not saved with the weights. If configured,
    each word without a vector has a trained vector that starts at zero.
    """

    word_vectors: Tensor

    def __init__(self, config: ModelConfig, word_vectors: Tensor, characters: int) -> None:
        super().__init__()
        if not config.word_vectors:
            word_vectors = word_vectors[:, :0]
        self.register_buffer("word_vectors", word_vectors, persistent=False)
        self.size = word_vectors.shape[1]
        trained = config.unknown_words == "trainable"
        self.unknown = TrainedUnknown(word_vectors, self.size) if trained else None
        dropouts = Dropouts(config)
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

    def embed_types(self, batch: Batch) -> Tensor:
        """Vectors of the batch's distinct types: (U, word vector size [+ filters])"""
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
