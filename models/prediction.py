"""Predictions of a model for any number of examples, and the loss that it is trained on."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.batching import Batch, Examples, ResidentExamples, Types, sorted_batches
from models.bidaf import BiDAF
from models.decoding import Predictions, best_spans

EVALUATION_TOKENS = 32_768
"""Context tokens in one batch of prediction, padding included: bounds memory on long contexts."""


def span_nll(start: Tensor, end: Tensor, batch: Batch) -> Tensor:
    """Negative log-likelihood of each example's span: (B,), nats, start + end."""
    return F.cross_entropy(start, batch.start, reduction="none", ignore_index=-1) + F.cross_entropy(
        end, batch.end, reduction="none", ignore_index=-1
    )


@torch.no_grad()
def predict(
    model: BiDAF, examples: Examples, types: Types, max_answer_tokens: int
) -> tuple[Predictions, float]:
    """The best span for every example, in order, and the mean NLL (nats) of those with a target."""
    n = len(examples)
    spans = np.full((2, n), -1, dtype=np.int64)
    scores = np.zeros((2, n))
    nll, targets = 0.0, 0
    model.eval()
    device = next(model.parameters()).device
    resident = ResidentExamples(examples, types, model.max_characters, device)
    for rows in sorted_batches(examples.context_lengths, EVALUATION_TOKENS):
        batch = resident.batch(rows)
        start, end = model(batch)
        first, last, score, no_answer = best_spans(start, end, max_answer_tokens)
        spans[:, rows] = torch.stack([first, last]).cpu().numpy() - 1
        scores[:, rows] = torch.stack([score, no_answer]).cpu().numpy()
        nll += float(span_nll(start, end, batch).sum())
        targets += int((batch.start >= 0).sum())
    predictions = Predictions(spans[0], spans[1], scores[0], scores[1])
    return predictions, nll / targets if targets else float("nan")
