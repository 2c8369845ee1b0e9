"""A loaded version of a registered model, which answers the requests that are batched together."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from infra.errors import UserError, first_line
from tasks.inference.ensemble import load_model
from tasks.inference.predictor import INCOMPATIBLE, AnswerRow, Offsets, Predictor, TextPair

PROBE = ("Where does the mill stand?", "The mill stands on the hill. The inn stands by the river.")


class ModelRequest(NamedTuple):
    """Questions with their contexts, and what is wanted about each of them."""

    pairs: Sequence[TextPair]
    top: int = 1  # number of likeliest answers
    max_answer_tokens: int | None = None  # None: as in training
    allow_no_answer: bool = True


@dataclass(frozen=True)
class ServedModel:
    """A version that is ready to answer."""

    name: str
    version: str
    predictor: Predictor

    @classmethod
    def load(cls, folder: Path, name: str, version: str) -> "ServedModel":
        """Load a model folder, and answer one question with it.

        Raises:
            UserError: it can't be loaded, or does not answer.
        """
        try:
            predictor = load_model(folder)
            if not math.isfinite(predictor.answer([PROBE])[0]["probability"]):
                raise ValueError("its probabilities are not finite")
        except (*INCOMPATIBLE, OSError) as error:
            raise UserError(
                f"{name} version {version} can't be served ({first_line(error)}). Promote another "
                "version, or train a new one: bidaflow retrain"
            ) from error
        return cls(name, version, predictor)

    def answer(self, requests: Sequence[ModelRequest]) -> list[list[list[AnswerRow]]]:
        """The likeliest answers to each question of each request, in order.

        A question that can't be answered has one row with an `error`. The questions of requests
        with equal wishes are answered together.
        """
        pairs = defaultdict[Any, list[TextPair]](list)
        for request in requests:
            pairs[request[1:]] += request.pairs
        answers = {wishes: iter(self._answer(pairs[wishes], *wishes)) for wishes in pairs}
        return [[next(answers[request[1:]]) for _ in request.pairs] for request in requests]

    def _answer(
        self, pairs: Sequence[TextPair], top: int, max_tokens: int | None, allow_no_answer: bool
    ) -> list[list[AnswerRow]]:
        predictor = self.predictor
        if not allow_no_answer:
            predictor = replace(predictor, threshold=math.inf)
        if max_tokens is not None:
            variant = predictor.variant.with_changes(max_answer_tokens=max_tokens)
            predictor = replace(predictor, variant=variant)
        return predictor.answer_top(pairs, top)

    def attention(self, question: str, context: str, answer: AnswerRow) -> dict[str, Any]:
        """What the model attended to, as lists of (start, end, weight) of tokens; the largest
        weight is 1.

        `question`: what the tokens of the answer attended to. `context`: what the question attended
        to, in the window of the context that has the answer.
        """
        maps = self.predictor.attention(question, context, max(answer["start"], 0))
        is_answer = [
            answer["start"] < end and start < answer["end"] for start, end in maps.context_offsets
        ]
        rows = [not any(is_answer), *is_answer]  # no answer is the null token, at 0
        to_question = maps.weights.context_to_question[0, : len(rows)][rows].mean(0)
        to_context = maps.weights.question_to_context[0].amax(0)
        return {
            "question": _weighted(maps.question_offsets, to_question),
            "context": _weighted(maps.context_offsets, to_context),
        }


def _weighted(offsets: Offsets, weights: Tensor) -> list[tuple[int, int, float]]:
    """The tokens with their weights, given those of the null token and the padding too."""
    scaled = weights[1 : len(offsets) + 1] / weights[1:].max().clamp(min=1e-9)
    return [
        (*token, round(weight, 3)) for token, weight in zip(offsets, scaled.tolist(), strict=True)
    ]
