"""Best answer span from start and end logits, and the choice between the span and no answer."""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from models.modules.layers import MASKED

# Spans of masked tokens have scores below this at any temperature.
ABSENT = MASKED / 100


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
        difference of their summed logits, divided by the temperature."""
        return self.no_answer_score - self.span_score

    def answers(self, threshold: float) -> Answers:
        """The best spans, or no answer where the margin reaches the threshold."""
        no_answer = self.margin >= threshold
        return Answers(
            np.where(no_answer, -1, self.span_start),
            np.where(no_answer, -1, self.span_end),
            np.where(no_answer | (self.span_start < 0), self.no_answer_score, self.span_score),
        )


@dataclass(frozen=True)
class TemperedPredictions:
    """Predictions for n questions, and what k temperatures make of them."""

    predictions: Predictions  # at temperature 1
    temperatures: tuple[float, ...]  # k
    totals: npt.NDArray[np.float64]  # (n, k); see `total_at`

    def at(self, temperature: float) -> Predictions:
        """The same spans, with the probabilities at one of the temperatures."""
        total = self.totals[:, self.temperatures.index(temperature)]
        return replace(
            self.predictions,
            span_score=self.predictions.span_score / temperature - total,
            no_answer_score=self.predictions.no_answer_score / temperature - total,
        )


def total_at(scores: Tensor, no_answer: Tensor, temperature: float) -> Tensor:
    """The logarithms of the sums of all probabilities, each to the power 1 / temperature, (B,).

    Takes log-probabilities as those of `span_scores`. Divided by the temperature, less this total,
    they are those at the temperature.
    """
    spans = (scores / temperature).flatten(1).logsumexp(1)
    return torch.logaddexp(spans, no_answer / temperature)


def argmax_threshold(allow_no_answer: bool) -> float:
    """The threshold that selects the more probable of span and no answer. If a model was trained
    without unanswerable questions, the threshold is infinity, which no margin reaches."""
    return 0.0 if allow_no_answer else math.inf


def best_spans(
    start: Tensor, end: Tensor, max_tokens: int, temperature: float = 1.0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The likeliest span with start ≤ end < start + max_tokens, in one pass.

    Separate maxima over rows and columns would disagree on ties. Position 0 is the null token
    and cannot start a span. The temperature (see `span_scores`) changes no span.

    Args:
        start, end: (B, T) logits; masked ones are far below the rest.
    Returns:
        start, end (B,) in batch positions (0, 0 for a context without tokens), log-probabilities of
        that span and of no answer, (B,) each.
    """
    scores, no_answer = span_scores(start, end, max_tokens, temperature)
    best, index = scores.flatten(1).max(1)
    first = index // scores.shape[2]
    last = first + index % scores.shape[2]
    absent = best < ABSENT
    return first.masked_fill(absent, 0), last.masked_fill(absent, 0), best, no_answer


def top_spans(
    start: Tensor, end: Tensor, max_tokens: int, count: int, temperature: float = 1.0
) -> Predictions:
    """The `count` likeliest spans of one context, likeliest first; fewer if it has fewer spans.

    The first is the span of `best_spans`. All spans are distinct, but they may overlap.

    Args:
        start, end: (T,) logits, with the null token first; masked ones are far below the rest.
    Returns:
        One row per span. The log-probability of no answer is the same in all rows.
    """
    scores, no_answer = span_scores(start.unsqueeze(0), end.unsqueeze(0), max_tokens, temperature)
    return ranked_spans(scores[0], no_answer[0], count)


def ranked_spans(scores: Tensor, no_answer: Tensor, count: int) -> Predictions:
    """The `count` likeliest spans of one context as in `top_spans`, from the log-probabilities of
    its spans, (T, max_tokens), and of no answer, a scalar; see `span_scores`."""
    # A stable sort keeps the order of tied spans, of which `best_spans` takes the first.
    ranked, index = scores.flatten().sort(descending=True, stable=True)
    k = min(count, int((ranked > ABSENT).sum()))
    first = index[:k] // scores.shape[1] - 1
    columns = (first, first + index[:k] % scores.shape[1], ranked[:k], no_answer.expand(k))
    return Predictions(*(column.cpu().numpy() for column in columns))


def span_scores(
    start: Tensor, end: Tensor, max_tokens: int, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Logits (B, T) -> log-probabilities of the spans, (B, T, max_tokens), or (B, T, T) if there
    are fewer tokens, and of no answer, (B,).

    Spans are indexed by their first position and their length minus 1. Scores are -inf for spans
    that exceed the batch or start at the null token. No answer is the null token as both start and
    end.

    The probability of a span is proportional to p(start)·p(end), where the softmax of each has this
    temperature. All allowed spans and no answer have a sum of 1: pairs that are no span, such as an
    end before its start, get no share.
    """
    max_tokens = min(max_tokens, start.shape[1])  # bounds memory
    start, end = start.double() / temperature, end.double() / temperature
    ends = F.pad(end, (0, max_tokens - 1), value=-torch.inf).unfold(1, max_tokens, 1)
    scores = start.unsqueeze(2) + ends
    scores[:, 0] = -torch.inf
    no_answer = start[:, 0] + end[:, 0]
    total = torch.cat([scores.flatten(1), no_answer.unsqueeze(1)], 1).logsumexp(1)
    return scores - total[:, None, None], no_answer - total
