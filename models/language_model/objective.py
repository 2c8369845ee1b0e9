"""The training objective of a bidirectional language model: the next and the previous word."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.language_model.bilm import BiLM, States
from models.language_model.config import BiLMConfig
from models.modules.layers import Dropout

# Words beyond these ranks share smaller vectors (Grave et al., 2017, "Efficient softmax
# approximation for GPUs"). The softmax is normalised exactly; only its weights are fewer.
CUTOFFS = (1_000, 10_000)


def cutoffs(classes: int) -> Sequence[int]:
    """The cutoffs for a number of classes; at least one is required."""
    return [cutoff for cutoff in CUTOFFS if cutoff < classes - 1] or [max(1, classes // 2)]


class LanguageModel(nn.Module):
    """A BiLM with the softmax that both of its directions share.

    Classes are sorted by descending frequency. Class 0 is a sentence's border, class 1 every word
    outside the vocabulary.
    """

    def __init__(self, config: BiLMConfig, classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.bilm = BiLM(config)
        self.softmax = nn.AdaptiveLogSoftmaxWithLoss(
            config.projection_size, classes, list(cutoffs(classes))
        )
        self.dropout = Dropout(dropout)

    def forward(
        self, characters: Tensor, tokens: Tensor, targets: Tensor, states: States
    ) -> tuple[Tensor, Tensor, States]:
        """The mean losses in nats, forward and backward, and the states after the last step.

        Args:
            characters: Character ids of distinct words, (U, 50).
            tokens: Rows of `characters`, (2, tracks, steps): in reading order of each direction.
            targets: Classes of the words that follow in that order, (2, tracks, steps).
            states: Those after the previous window.
        """
        vectors = self.dropout(self.bilm.encoder(characters))[tokens]
        losses, after = [], []
        for direction, lstm in enumerate((self.bilm.ahead, self.bilm.back)):
            outputs, new_states = lstm(vectors[direction], states[direction])
            top = self.dropout(outputs[-1]).flatten(0, 1).float()
            # torch's adaptive softmax fails if autocast changes the type of its parts.
            with torch.autocast(top.device.type, enabled=False):
                losses.append(self.softmax(top, targets[direction].flatten()).loss)
            after.append([(output.detach(), cell.detach()) for output, cell in new_states])
        return losses[0], losses[1], (after[0], after[1])
