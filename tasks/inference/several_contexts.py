"""The answers to a question from several contexts, on one scale.

A model reads each context alone, and gives a span s of context c the probability P(s | c) and no
answer P(none | c). What compares over contexts are the odds P(s | c) / P(none | c): the probability
that a context has no answer says how well the model likes any of its spans. At most one span of all
contexts is the answer, so

    P(none) = 1 / (1 + Σ (1 - P(none | c)) / P(none | c)),  P(c, s) = P(none) P(s | c) / P(none | c)

which have a sum of 1, and are the model's own for a single context. As with a long context that is
read in windows, there is an answer if one context has one.

A model that was trained without unanswerable questions does not know the probability of no answer.
For such a model, each of the contexts is as likely to have the answer.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

# Other numbers are too small or too large for a float.
SMALLEST, LARGEST_LOG = 1e-300, 700.0


def best_over_contexts(
    answers: Mapping[str, Sequence[Mapping[str, Any]]], threshold: float
) -> list[dict[str, Any]]:
    """The answers from all contexts, likeliest first, each with its `context`.

    `answers` has the `AnswerRow`s from each context, and `threshold` is that of `Predictor`. No
    answer comes before the spans that it beats, with the context that comes closest to an answer.
    Contexts that can't be read are left out; if none can, there is one row, with the `error`.
    """
    readable = {context: rows for context, rows in answers.items() if not rows[0]["error"]}
    if not readable:
        context, (row,) = next(iter(answers.items()))
        return [{**row, "context": context}]
    none = {context: rows[0]["no_answer_probability"] for context, rows in readable.items()}
    if threshold < math.inf:
        odds = {context: 1 / max(share, SMALLEST) for context, share in none.items()}
        no_answer = 1 / (1 + sum(max(own - 1, 0.0) for own in odds.values()))
        scales = {context: no_answer * own for context, own in odds.items()}
    else:
        no_answer = sum(none.values()) / len(none)
        scales = dict.fromkeys(readable, 1 / len(readable))
    spans = [
        {**row, "context": context, "probability": row["probability"] * scales[context]}
        for context, rows in readable.items()
        for row in rows
        if row["start"] >= 0
    ]
    spans.sort(key=lambda span: -span["probability"])
    if threshold < math.inf:
        factor = math.exp(min(threshold, LARGEST_LOG))
        place = sum(span["probability"] * factor > no_answer for span in spans)
        closest = min(none, key=none.__getitem__)
        nothing = {"answer": "", "start": -1, "end": -1, "error": "", "context": closest}
        spans.insert(place, nothing | {"probability": no_answer})
    return [{**span, "no_answer_probability": no_answer} for span in spans]
