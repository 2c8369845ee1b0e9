"""From two rows of logits to the best answer span."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from models.layers import MASKED


@dataclass(frozen=True)
class Predictions:
    """One answer a question. Token positions in the context, inclusive; -1, -1 for no answer."""

    span_start: npt.NDArray[np.int64]  # (n,)
    span_end: npt.NDArray[np.int64]  # (n,)
    score: npt.NDArray[np.float64]  # (n,) log-probability of the answer given
    no_answer_probability: npt.NDArray[np.float64]  # (n,)


def best_spans(
    start: Tensor, end: Tensor, max_tokens: int, allow_no_answer: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The span that maximises p_start·p_end with start ≤ end < start + max_tokens, in one pass.

    Separate maxima over rows and columns would disagree on ties. Position 0 is the null token
    and begins no span; with `allow_no_answer` its own probability competes with the best span's.

    Args:
        start, end: (B, T) logits, masked ones far below the rest.
    Returns:
        start, end (B,) in batch positions (0, 0 = no answer), log-probability of that answer
        and of no answer, (B,) each.
    """
    log_start, log_end = torch.log_softmax(start.double(), 1), torch.log_softmax(end.double(), 1)
    no_answer = log_start[:, 0] + log_end[:, 0]
    ends = F.pad(log_end, (0, max_tokens - 1), value=-torch.inf).unfold(1, max_tokens, 1)
    scores = log_start.unsqueeze(2) + ends  # (B, T, max_tokens)
    scores[:, 0] = -torch.inf
    best, where = scores.flatten(1).max(1)
    first = where // max_tokens
    last = first + where % max_tokens
    absent = best < MASKED / 2  # a context without tokens
    if allow_no_answer:
        absent |= no_answer >= best
    first, last = first.masked_fill(absent, 0), last.masked_fill(absent, 0)
    best = torch.where(absent, no_answer, best)
    return first, last, best, no_answer
