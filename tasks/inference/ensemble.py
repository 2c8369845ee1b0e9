"""Several models that answer as one, by the mean of their span probabilities."""

import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.span_decoding import Predictions, ranked_spans, total_at
from tasks.inference.members import MEMBERS, member_folders
from tasks.inference.no_answer import NoAnswer
from tasks.inference.predictor import AnswerRow, Offsets, Predictor, TextPair, threshold_of
from tasks.text.tokenizer import tokenize

# Questions whose span probabilities are in memory together: 50 kB each for 400 tokens.
SCORED_TOGETHER = 64
LEXICON_FILES = ("words.parquet", "characters.parquet")


@dataclass(frozen=True)
class Ensemble(Predictor):
    """Answers by the mean of the members' probabilities, each at its own temperature; the
    ensemble's temperature is applied to their mean.

    Whatever else a predictor has, such as its lexicon and its attention, is the first member's.
    """

    members: tuple[Predictor, ...] = ()

    def read_error(self, question_tokens: int, context_tokens: int) -> str:
        """Why a member can't answer texts of these lengths; "" if all can."""
        errors = (member.read_error(question_tokens, context_tokens) for member in self.members)
        return next(filter(None, errors), "")

    def mean_scores(self, pairs: Sequence[TextPair]) -> Iterator[tuple[Tensor, Tensor]]:
        """For each pair the logarithms of the mean probabilities of all spans, (T + 1, L), and of
        no answer; see `predict_scores`. Spans may be as long as the ensemble's variant says."""
        longest = self.variant.training.max_answer_tokens
        for first in range(0, len(pairs), SCORED_TOGETHER):
            group = pairs[first : first + SCORED_TOGETHER]
            scored = (member.span_scores(group, longest) for member in self.members)
            for own in zip(*scored, strict=True):
                scores, no_answers = zip(*own, strict=True)
                yield _log_mean(scores), _log_mean(no_answers)

    def _best_answers(self, pairs: Sequence[TextPair]) -> list[list[AnswerRow]]:
        return self._top_answers(pairs, 1)

    def _top_spans(
        self, pairs: Sequence[TextPair], count: int
    ) -> tuple[list[Offsets], list[Predictions]]:
        scored = self.mean_scores(pairs)
        spans = [ranked_spans(*tempered(*own, self.temperature), count) for own in scored]
        return [tokenize(context) for _, context in pairs], spans


def _log_mean(logarithms: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(logarithms)).logsumexp(0) - math.log(len(logarithms))


def tempered(scores: Tensor, no_answer: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probabilities of spans and of no answer at a temperature."""
    (total,) = total_at(scores[None], no_answer[None], temperature)
    return scores / temperature - total, no_answer / temperature - total


def join(members: Sequence[Predictor]) -> Ensemble:
    """An ensemble of these members, with the threshold of the first, at temperature 1. Answers may
    be as long as the longest of any member."""
    longest = max(member.variant.training.max_answer_tokens for member in members)
    first = replace(
        members[0],
        variant=members[0].variant.with_changes(max_answer_tokens=longest),
        temperature=1.0,
    )
    own = {field.name: getattr(first, field.name) for field in fields(Predictor)}
    return Ensemble(**own, members=tuple(members))


def save_ensemble(folder: Path, members: Sequence[Path], config: Mapping[str, Any]) -> None:
    """Write the folder of an ensemble: a folder for each member, copied, and a config.json with
    `config`: allow_no_answer, threshold, operating_points and temperature, as in `save_model`."""
    names = [str(number) for number in range(len(members))]
    for name, member in zip(names, members, strict=True):
        shutil.copytree(member, folder / name)
    for name in LEXICON_FILES:
        shutil.copyfile(members[0] / name, folder / name)
    text = json.dumps({MEMBERS: names, **config}, indent=1)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")


def load_model(
    folder: Path, no_answer: NoAnswer = "argmax", expected_no_answer: float | None = None
) -> Predictor:
    """Load the folder of a trained model or of an ensemble; see `Predictor.load`."""
    members = [Predictor.load(member) for member in member_folders(folder)]
    if not members:
        return Predictor.load(folder, no_answer, expected_no_answer)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    threshold = threshold_of(config, no_answer, expected_no_answer)
    return replace(join(members), threshold=threshold, temperature=config["temperature"])
