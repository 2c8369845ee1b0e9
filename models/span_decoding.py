"""Best answer span from start and end logits, and the choice between the span and no answer."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from models.modules.layers import MASKED


@dataclass(frozen=True)
class Answers:
    """One answer per question. Spans are inclusive token positions in the context; -1, -1 for no
    answer."""

    span_start: npt.NDArray[np.int64]  # (n,)
    span_end: npt.NDArray[np.int64]  # (n,)
    score: npt.NDArray[np.float64]  # (n,) log-probability of this answer


@dataclass(frozen=True)
class Predictions:
    """The best span for each question, and the log-probabilities of the span and of no answer."""

    span_start: npt.NDArray[np.int64]  # (n,) first token; -1 if the context has no tokens
    span_end: npt.NDArray[np.int64]  # (n,) last token, inclusive
    span_score: npt.NDArray[np.float64]  # (n,) log-probability of the span
    no_answer_score: npt.NDArray[np.float64]  # (n,) log-probability of no answer

    @property
    def margin(self) -> npt.NDArray[np.float64]:
        """Log-probability of no answer minus that of the best span: (n,), nats. It equals the
        difference of the summed logits, because start and end have one normaliser each."""
        return self.no_answer_score - self.span_score

    def answers(self, threshold: float) -> Answers:
        """The best spans, or no answer where the margin reaches the threshold."""
        no_answer = self.margin >= threshold
        return Answers(
            np.where(no_answer, -1, self.span_start),
            np.where(no_answer, -1, self.span_end),
            np.where(no_answer | (self.span_start < 0), self.no_answer_score, self.span_score),
        )


def argmax_threshold(allow_no_answer: bool) -> float:
    """The threshold that selects the more probable of span and no answer. If a model was trained
    without unanswerable questions, the threshold is infinity, which no margin reaches."""
    return 0.0 if allow_no_answer else math.inf


def best_spans(
    start: Tensor, end: Tensor, max_tokens: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The span that maximises p_start·p_end with start ≤ end < start + max_tokens, in one pass.

    Separate maxima over rows and columns would disagree on ties. Position 0 is the null token
    and cannot start a span.

    Args:
        start, end: (B, T) logits; masked ones are far below the rest.
    Returns:
        start, end (B,) in batch positions (0, 0 for a context without tokens), log-probabilities of
        that span and of no answer, (B,) each.
    """
    max_tokens = min(max_tokens, start.shape[1])  # bounds memory
    scores, no_answer = _span_scores(start, end, max_tokens)
    best, index = scores.flatten(1).max(1)
    first = index // max_tokens
    last = first + index % max_tokens
    absent = best < MASKED / 2  # the context has no tokens
    return first.masked_fill(absent, 0), last.masked_fill(absent, 0), best, no_answer


def top_spans(start: Tensor, end: Tensor, max_tokens: int, count: int) -> Predictions:
    """The `count` likeliest spans of one context, likeliest first; fewer if it has fewer spans.

    The first is the span of `best_spans`. All spans are distinct, but they may overlap.

    Args:
        start, end: (T,) logits, with the null token first; masked ones are far below the rest.
    Returns:
        One row per span. The log-probability of no answer is the same in all rows.
    """
    max_tokens = min(max_tokens, len(start))
    scores, no_answer = _span_scores(start.unsqueeze(0), end.unsqueeze(0), max_tokens)
    # A stable sort keeps the order of tied spans, of which `best_spans` takes the first.
    ranked, index = scores.flatten().sort(descending=True, stable=True)
    k = min(count, int((ranked > MASKED / 2).sum()))
    first = index[:k] // max_tokens - 1
    columns = (first, first + index[:k] % max_tokens, ranked[:k], no_answer.expand(k))
    return Predictions(*(column.cpu().numpy() for column in columns))


def _span_scores(start: Tensor, end: Tensor, max_tokens: int) -> tuple[Tensor, Tensor]:
    """Logits (B, T) -> log(p_start·p_end) of the spans, (B, T, max_tokens), and of no answer, (B,).

    Spans are indexed by their first position and their length minus 1. Scores are -inf for spans
    that exceed the batch or start at the null token. No answer is the null token as both start and
    end.
    """
    log_start, log_end = torch.log_softmax(start.double(), 1), torch.log_softmax(end.double(), 1)
    ends = F.pad(log_end, (0, max_tokens - 1), value=-torch.inf).unfold(1, max_tokens, 1)
    scores = log_start.unsqueeze(2) + ends
    scores[:, 0] = -torch.inf
    return scores, log_start[:, 0] + log_end[:, 0]
