"""Cuts a corpus into parallel tracks, which are read window by window."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from models.language_model.config import LMTraining
from models.language_model.corpus import BORDER, Corpus


@dataclass(frozen=True)
class Window:
    """The inputs and targets of one step, as `LanguageModel.forward` takes them."""

    characters: Tensor
    tokens: Tensor
    targets: Tensor


class Tracks:
    """A corpus in `count` tracks of equal length, of which one worker reads a share.

    Without enough words for `count` tracks of one window, there are fewer tracks.
    """

    def __init__(self, corpus: Corpus, count: int, steps: int, share: slice = slice(None)) -> None:
        """Raises ValueError if the corpus has too few words for one window for each worker."""
        length = len(corpus.forward)
        count = min(count, length // (steps + 1))
        self.corpus, self.steps = corpus, steps
        self.rows = len(range(count)[share])
        if count < (share.step or 1):
            raise ValueError(
                f"{length} words are too few for windows of {steps} words on each worker"
            )
        self.starts = [track * (length // count) for track in range(count)[share]]
        self.windows = (length // count - 1) // steps
        self.words_per_window = count * steps

    def total_steps(self, training: LMTraining) -> int:
        """The steps of a training over these tracks."""
        steps = training.epochs * self.windows
        if training.max_words is None:
            return steps
        return min(steps, math.ceil(training.max_words / self.words_per_window))

    def window(self, number: int, device: torch.device) -> Window:
        """The window of this number, 0 to `windows` - 1."""
        size = self.steps + 1
        firsts = [start + number * self.steps for start in self.starts]
        ids = np.array(
            [
                [stream[first : first + size] for first in firsts]
                for stream in (self.corpus.forward, self.corpus.backward)
            ]
        )
        inputs, rows = np.unique(ids[:, :, :-1], return_inverse=True)
        characters = np.concatenate([self.corpus.border_end[None], self.corpus.characters[inputs]])
        tokens = rows.reshape(ids[:, :, :-1].shape) + 1
        tokens[1][ids[1, :, :-1] == BORDER] = 0
        return Window(
            torch.from_numpy(characters).long().to(device),
            torch.from_numpy(tokens).to(device),
            torch.from_numpy(self.corpus.classes[ids[:, :, 1:]]).long().to(device),
        )
