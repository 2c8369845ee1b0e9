"""Answers questions about raw text with a trained model."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from infra.errors import UserError
from models.arrays import IntArray
from models.attention_maps import AttentionWeights, attention_weights
from models.batching import Examples, Ragged, Types, make_batch
from models.bidaf import BiDAF
from models.configs.variant import VariantConfig
from models.predict import (
    EVALUATION_PAIRS,
    LONGEST_CONTEXT,
    longest_context,
    predict,
    predict_scores,
    predict_top,
)
from models.sliding_windows import cut
from models.span_decoding import Predictions, argmax_threshold
from models.token_layers import TokenLayers
from tasks.embeddings.contextual.frozen_bilm import FrozenBiLM, has_bilm
from tasks.embeddings.formats.word_vectors import Subwords
from tasks.evaluation.operating_points import OperatingPoint, threshold_for
from tasks.inference.model_folder import load_vectors
from tasks.inference.no_answer import NoAnswer
from tasks.text.tokenizer import tokenize
from tasks.text.vocabulary import PADDING, SPECIAL, UNKNOWN, Lexicon

Offsets = list[tuple[int, int]]
TextPair = tuple[str, str]  # question and context
# Contexts that are encoded in memory together: about 64,000 tokens, whose contextual layers take
# 0.5 GB for three layers of 640 numbers.
GROUP_CHARACTERS = 1 << 18
_SURROGATE = re.compile("[\ud800-\udfff]")
# What `Predictor.load` raises if the folder was written by incompatible code.
INCOMPATIBLE = (KeyError, RuntimeError, SafetensorError, TypeError, ValueError)


class AnswerRow(TypedDict):
    """An answer: its text, its position in the context, and the model's confidence."""

    answer: str  # "" for no answer
    start: int  # characters; -1 for no answer
    end: int  # characters, exclusive; -1 for no answer
    probability: float  # of the predicted answer, 0 to 1
    no_answer_probability: float
    error: str  # why there is nothing to answer, with both probabilities 0; "" otherwise


@dataclass(frozen=True)
class TokenAttention:
    """The attention weights between a question and a context or one window of it, a batch of one,
    with the offsets of their tokens."""

    question_offsets: Offsets
    context_offsets: Offsets
    weights: AttentionWeights


@dataclass(frozen=True)
class _EncodedInput:
    """Encoded raw text, and the model extended with vectors of its OOV words."""

    question_offsets: list[Offsets]
    context_offsets: list[Offsets]
    examples: Examples
    types: Types
    model: BiDAF


@dataclass(frozen=True)
class Predictor:
    """Answers questions about contexts. Answers do not depend on the batch size.

    "No answer" is predicted if its log-probability exceeds that of the best span by `threshold`.
    The temperature divides the logits, so that probabilities agree with how often answers are
    right.
    """

    model: BiDAF
    variant: VariantConfig
    threshold: float
    lexicon: Lexicon
    subwords: Subwords | None = None
    bilm: FrozenBiLM | None = None
    temperature: float = 1.0

    @classmethod
    def load(
        cls,
        folder: Path,
        no_answer: NoAnswer = "argmax",
        expected_no_answer: float | None = None,
    ) -> "Predictor":
        """Load a model folder written by `save_model`.

        With `no_answer` "threshold", `expected_no_answer` is the share (0 to 1) of unanswerable
        questions that the threshold is for; None: the one that the training expected.

        Raises:
            UserError: `no_answer` or `expected_no_answer` is invalid, or the model has no such
                threshold.
        """
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        variant = VariantConfig.from_dict(config["variant"])
        lexicon = Lexicon.load(folder)
        vectors = load_vectors(folder)
        bilm = FrozenBiLM.load(folder) if has_bilm(folder) else None
        shape = bilm.bilm.config.layers_shape if bilm else (0, 0)
        model = BiDAF(variant.model, vectors, len(lexicon.character_indices) + 2, shape)
        model.load_state_dict(load_file(folder / "weights.safetensors"))
        threshold = threshold_of(config, no_answer, expected_no_answer)
        return cls(
            *(model, variant, threshold, lexicon, Subwords.load(folder), bilm),
            temperature=config["temperature"],
        )

    def answer(self, pairs: Sequence[TextPair]) -> list[AnswerRow]:
        """Answers to (question, context) pairs, in order; see `answer_top`."""
        return [row for (row,) in self.answer_top(pairs, 1)]

    def answer_top(self, pairs: Sequence[TextPair], count: int) -> list[list[AnswerRow]]:
        """The `count` likeliest answers to each of the (question, context) pairs, likeliest first;
        fewer if the context has fewer spans.

        "No answer" comes before the spans that it beats; it is left out if the threshold is
        infinite. Spans are distinct, but they may overlap. The probabilities of all spans and of no
        answer have a sum of 1 (see `span_scores`).

        A pair whose question or context has no tokens gets a row with an `error`, and so does one
        whose texts are too long for the memory that the model would take. Unpaired surrogates,
        which UTF-8 can't encode, are read as U+FFFD.
        """
        pairs = [(_encodable(question), _encodable(context)) for question, context in pairs]
        tokens = {text: len(tokenize(text)) for text in {text for pair in pairs for text in pair}}
        errors = [self.read_error(tokens[question], tokens[context]) for question, context in pairs]
        valid = [pair for pair, error in zip(pairs, errors, strict=True) if not error]
        answer_group = self._best_answers if count == 1 else partial(self._top_answers, count=count)
        answers = (rows for group in _groups(valid) for rows in answer_group(group))
        unread = AnswerRow(
            answer="", start=-1, end=-1, probability=0.0, no_answer_probability=0.0, error=""
        )
        return [[{**unread, "error": error}] if error else next(answers) for error in errors]

    def read_error(self, question_tokens: int, context_tokens: int) -> str:
        """Why texts of these lengths can't be answered; "" if they can."""
        if not question_tokens:
            return "The question is empty. Provide some text."
        if not context_tokens:
            return "The context is empty. Provide some text."
        window = self.variant.training.window
        limit = longest_context(self.variant.model, window)
        if self.bilm is not None:  # which reads the whole text, also if BiDAF reads windows
            limit = min(limit, LONGEST_CONTEXT)
        if context_tokens > limit:
            other = "" if window else ", or train a model with --training.window-stride"
            return (
                f"The context has {context_tokens:,} tokens, but this model reads at most "
                f"{limit:,}. Split the context{other}."
            )
        read_together = min(context_tokens, window.tokens) if window else context_tokens
        if (question_tokens + 1) * (read_together + 1) > EVALUATION_PAIRS:
            return (
                f"The question and the context are too long together: they have "
                f"{question_tokens:,} and {context_tokens:,} tokens. Shorten one of them."
            )
        return ""

    def _best_answers(self, pairs: Sequence[TextPair]) -> list[list[AnswerRow]]:
        encoded = self._encode(pairs)
        predictions, _ = predict(
            encoded.model,
            encoded.examples,
            encoded.types,
            self.variant.training.max_answer_tokens,
            self.variant.training.window,
            temperature=self.temperature,
        )
        answers = predictions.answers(self.threshold)
        return [
            [_row(context, spans, int(start), int(end), float(score), float(no_answer))]
            for (_, context), spans, start, end, score, no_answer in zip(
                pairs,
                encoded.context_offsets,
                answers.span_start,
                answers.span_end,
                answers.score,
                np.exp(predictions.no_answer_score),
                strict=True,
            )
        ]

    def _top_answers(self, pairs: Sequence[TextPair], count: int) -> list[list[AnswerRow]]:
        offsets, predictions = self._top_spans(pairs, count)
        return [
            self._ranked(context, own, spans)[:count]
            for (_, context), own, spans in zip(pairs, offsets, predictions, strict=True)
        ]

    def _top_spans(
        self, pairs: Sequence[TextPair], count: int
    ) -> tuple[list[Offsets], list[Predictions]]:
        """The tokens of each pair's context, and its `count` likeliest spans."""
        encoded = self._encode(pairs)
        training = self.variant.training
        return encoded.context_offsets, predict_top(
            encoded.model,
            encoded.examples,
            encoded.types,
            training.max_answer_tokens,
            count,
            training.window,
            self.temperature,
        )

    def span_scores(
        self, pairs: Sequence[TextPair], max_answer_tokens: int
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The log-probabilities of all spans of each pair's context, and of no answer; see
        `predict_scores`. All texts need tokens."""
        encoded = self._encode(pairs)
        return predict_scores(
            encoded.model,
            encoded.examples,
            encoded.types,
            max_answer_tokens,
            self.variant.training.window,
            self.temperature,
        )

    def _ranked(self, context: str, offsets: Offsets, spans: Predictions) -> list[AnswerRow]:
        """The spans of a context, with no answer at its place."""
        null_score = float(spans.no_answer_score[0])
        rows = [
            _row(context, offsets, int(first), int(last), float(score), math.exp(null_score))
            for first, last, score in zip(
                spans.span_start, spans.span_end, spans.span_score, strict=True
            )
        ]
        if self.threshold < math.inf:
            place = int((spans.margin < self.threshold).sum())
            rows.insert(place, _row(context, offsets, -1, -1, null_score, math.exp(null_score)))
        return rows

    def top_answers(self, question: str, context: str, count: int) -> list[AnswerRow]:
        """The `count` likeliest answers to a question, likeliest first; see `answer_top`.

        Raises:
            UserError: a text has no tokens, or is too long.
        """
        (rows,) = self.answer_top([(question, context)], count)
        if rows[0]["error"]:
            raise UserError(rows[0]["error"])
        return rows

    def attention(self, question: str, context: str, around: int = 0) -> TokenAttention:
        """The model's attention weights for a question. Both texts need tokens.

        If the model reads contexts in windows, only one window is returned: the one that scores the
        token at the character `around`.
        """
        encoded = self._encode([(question, context)])
        examples, offsets, row = encoded.examples, encoded.context_offsets[0], 0
        if self.variant.training.window is not None:
            windows = cut(examples, self.variant.training.window)
            token = min(sum(end <= around for _, end in offsets), len(offsets) - 1)
            row = int(np.searchsorted(windows.core_end, token, side="right"))
            first = int(windows.first[row])
            examples = windows.examples
            offsets = offsets[first : first + int(examples.context_lengths[row])]
        batch = make_batch(examples, encoded.types, np.array([row]), self.model.max_characters)
        return TokenAttention(
            encoded.question_offsets[0], offsets, attention_weights(encoded.model, batch)
        )

    def _encode(self, pairs: Sequence[tuple[str, str]]) -> _EncodedInput:
        questions = [tokenize(question) for question, _ in pairs]
        distinct = {context: tokenize(context) for context in dict.fromkeys(c for _, c in pairs)}
        row_of = {context: row for row, context in enumerate(distinct)}
        # Each distinct form gets a type; types 0 and 1 are padding and the null token.
        ids = defaultdict[str, int](count(UNKNOWN + 1).__next__)
        context_ids = [
            [ids[context[start:end]] for start, end in offsets]
            for context, offsets in distinct.items()
        ]
        question_ids = [
            [ids[question[start:end]] for start, end in offsets]
            for (question, _), offsets in zip(pairs, questions, strict=True)
        ]
        no_span = np.full(len(pairs), -1, dtype=np.int32)
        examples = Examples(
            contexts=Ragged.from_rows(context_ids),
            questions=Ragged.from_rows(question_ids),
            context_of=np.array([row_of[context] for _, context in pairs], dtype=np.int64),
            span_start=no_span,
            span_end=no_span,
            impossible=np.zeros(len(pairs), dtype=bool),
            context_layers=self._layers(list(distinct), list(distinct.values())),
            question_layers=self._layers([question for question, _ in pairs], questions),
        )
        words, model = self._words(ids)
        characters = [[], [UNKNOWN], *map(self.lexicon.characters, ids)]
        types = Types(words, Ragged.from_rows(characters))
        contexts = [distinct[context] for _, context in pairs]
        return _EncodedInput(questions, contexts, examples, types, model)

    def _layers(self, texts: Sequence[str], offsets: Sequence[Offsets]) -> TokenLayers | None:
        """The contextual layers of the texts' tokens, computed once for each distinct text."""
        if self.bilm is None:
            return None
        distinct = {
            text: [text[start:end] for start, end in tokens]
            for text, tokens in zip(texts, offsets, strict=True)
        }
        number = {text: row for row, text in enumerate(distinct)}
        layers = self.bilm.layers(list(distinct.values()))
        return TokenLayers.of_texts(layers, np.array([number[text] for text in texts]))

    def _words(self, forms: Collection[str]) -> tuple[IntArray, BiDAF]:
        """The row of each type's word in the model's vectors, and the model: this one or, if OOV
        words are composed from n-grams, a copy with the vectors of these types only."""
        words, oov = self.lexicon.with_oov_rows(forms)
        known = len(SPECIAL) + len(self.lexicon.word_indices)
        rows = np.array([PADDING, UNKNOWN, *words], np.int32)
        is_oov = rows >= known
        if self.subwords is None or not oov:
            return np.where(is_oov, np.int32(UNKNOWN), rows), self.model
        vectors = self.model.words.word_vectors[np.where(is_oov, UNKNOWN, rows)]
        vectors[is_oov] = torch.from_numpy(self.subwords.vectors(oov))[rows[is_oov] - known]
        return np.arange(len(rows), dtype=np.int32), with_vectors(self.model, vectors)


def _groups(pairs: Sequence[TextPair]) -> Iterator[Sequence[TextPair]]:
    """The pairs that are answered together: all, but not too many contexts in memory.

    Consecutive questions about the same context stay together, so it is encoded once.
    """
    group: list[TextPair] = []
    characters = 0
    for question, context in pairs:
        if not group or context != group[-1][1]:
            if group and characters + len(context) > GROUP_CHARACTERS:
                yield group
                group, characters = [], 0
            characters += len(context)
        group.append((question, context))
    yield group


def with_vectors(model: BiDAF, vectors: torch.Tensor) -> BiDAF:
    """A shallow copy of a model with other word vectors: (words, dimension)."""
    model, words = copy(model), copy(model.words)
    words._buffers = {**words._buffers, "word_vectors": vectors}
    model._modules = {**model._modules, "words": words}
    return model


def threshold_of(config: Mapping[str, Any], no_answer: NoAnswer, expected: float | None) -> float:
    """The threshold of a model with this config.json; for the rest see `Predictor.load`."""
    if no_answer == "argmax":
        if expected is not None:
            raise UserError(
                "expected_no_answer has no effect with no_answer='argmax'; omit it, or use "
                "no_answer='threshold'."
            )
        return argmax_threshold(config["allow_no_answer"])
    if no_answer != "threshold":
        raise UserError(f"no_answer must be 'argmax' or 'threshold', but is {no_answer!r}.")
    chosen = config["threshold"]
    if chosen is None:
        raise UserError(
            "no_answer='threshold' is not available: this model has no threshold, because its "
            "training had no validation split with both answerable and unanswerable questions. "
            "Use no_answer='argmax'."
        )
    return float(chosen) if expected is None else _threshold_for(config, expected)


def _threshold_for(config: Mapping[str, Any], expected: float) -> float:
    """The threshold for a share of unanswerable questions."""
    if not 0 < expected < 1:
        raise UserError(f"expected_no_answer must be between 0 and 1, but is {expected}.")
    points = [OperatingPoint(*point) for point in config["operating_points"]]
    return threshold_for(points, expected)


def _encodable(text: str) -> str:
    """The text with U+FFFD for each unpaired surrogate; offsets stay the same."""
    return _SURROGATE.sub("\ufffd", text)


def _row(
    context: str, offsets: Offsets, first: int, last: int, score: float, no_answer: float
) -> AnswerRow:
    start, end = (-1, -1) if first < 0 else (offsets[first][0], offsets[last][1])
    return AnswerRow(
        answer=context[start:end],  # "" for no answer
        start=start,
        end=end,
        probability=min(math.exp(score), 1.0),
        no_answer_probability=no_answer,
        error="",
    )
