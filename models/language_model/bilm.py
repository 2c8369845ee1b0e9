"""ELMo's bidirectional language model, and the vectors of words in their sentences.

Peters et al. (2018), "Deep contextualized word representations", section 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from models.arrays import Float32Array
from models.language_model.character_encoder import CharacterEncoder
from models.language_model.characters import border_ids, encode_words
from models.language_model.config import BiLMConfig
from models.language_model.lstm import StackedLSTM, State
from models.modules.mask import Mask
from models.modules.rnn import reverse_sequences

States = tuple[list[State], list[State]]  # of the forward and of the backward LSTMs


class BiLM(nn.Module):
    """Character CNN, forward LSTMs and backward LSTMs."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = CharacterEncoder(config)
        self.ahead = StackedLSTM(config)
        self.back = StackedLSTM(config)

    def first_states(self, rows: int) -> States:
        """The states of both directions before the first sentence: zeros."""
        device = self.encoder.embedding.weight.device
        return self.ahead.first_states(rows, device), self.back.first_states(rows, device)

    def forward(self, batch: "SentenceBatch", states: States) -> tuple[Tensor, States]:
        """All layers (B, 1 + layers, N, 2P) of the sentences with their borders, and the states
        after them. Layer 0 is the word's own vector twice.

        The states are those of the sentences' ends only if all sentences have the same length.
        """
        x = self.encoder(batch.characters)[batch.tokens]
        index = Mask(batch.mask).reversal
        ahead, ahead_states = self.ahead(x, states[0])
        reverse, back_states = self.back(reverse_sequences(x, index), states[1])
        back = [reverse_sequences(output, index) for output in reverse]
        layers = [torch.cat(pair, 2) for pair in zip([x, *ahead], [x, *back], strict=True)]
        return torch.stack(layers, 1), (ahead_states, back_states)


@dataclass(frozen=True)
class SentenceBatch:
    """Sentences with their borders, padded to the longest one."""

    characters: Tensor  # (U, 50): the borders, and each distinct word once
    tokens: Tensor  # (B, N) rows of `characters`
    mask: Tensor  # (B, N)

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]], device: torch.device) -> "SentenceBatch":
        """The batch of some sentences, each a sequence of words."""
        distinct = dict.fromkeys(word for sentence in sentences for word in sentence)
        rows = {word: row for row, word in enumerate(distinct, 2)}
        lengths = torch.tensor([len(sentence) + 2 for sentence in sentences])
        tokens = np.zeros((len(sentences), int(lengths.max())), np.int64)
        for row, sentence in zip(tokens, sentences, strict=True):
            row[1 : len(sentence) + 2] = [*(rows[word] for word in sentence), 1]
        characters = np.concatenate([border_ids(), encode_words(list(distinct))])
        return cls(
            torch.from_numpy(characters).long().to(device),
            torch.from_numpy(tokens).to(device),
            (torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)).to(device),
        )


@torch.inference_mode()
def embed(
    bilm: BiLM, sentences: Sequence[Sequence[str]], states: States | None = None
) -> tuple[list[Float32Array], States]:
    """The vectors of each sentence's words, (1 + layers, words, 2P), and the states afterwards.

    Without `states`, each sentence is read on its own. States carry over from sentence to sentence
    only with one sentence at a time (see `BiLM.forward`).
    """
    batch = SentenceBatch.of(sentences, bilm.encoder.embedding.weight.device)
    layers, after = bilm(batch, states or bilm.first_states(len(sentences)))
    arrays = layers.float().cpu().numpy()
    vectors = [
        row[:, 1 : len(sentence) + 1] for row, sentence in zip(arrays, sentences, strict=True)
    ]
    return vectors, after
