"""Temperature scaling, on targets that a model's own distribution draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from models.arrays import FloatArray
from models.batching import Examples, make_batch
from models.bidaf import BiDAF
from models.configs.variant import Window
from models.predict import TEMPERATURES, predict, predict_tempered
from models.span_decoding import Predictions, span_scores
from tasks.evaluation.metrics import expected_calibration_error, reliability
from tasks.evaluation.temperature import likeliest_temperature
from tests.factories.models import make_examples, make_model, make_types, small

TYPES = make_types()
LONGEST = 4  # tokens of an answer


def sharpened(model: BiDAF, factor: float) -> BiDAF:
    """A model whose logits are multiplied by a factor."""
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.startswith(("output.start_", "output.end_")):
                weights *= factor
    return model


def drawn(model: BiDAF, examples: Examples, seed: int) -> Examples:
    """The examples with targets that are drawn from the distribution of the model's answers."""
    batch = make_batch(examples, TYPES, np.arange(len(examples)), model.max_characters)
    with torch.no_grad():
        spans, no_answer = span_scores(*model.eval()(batch), LONGEST)
    chances = torch.cat([no_answer.unsqueeze(1), spans.flatten(1)], 1).exp()
    chosen = torch.multinomial(chances, 1, generator=torch.Generator().manual_seed(seed))[:, 0]
    first = ((chosen - 1) // LONGEST - 1).numpy()
    last = first + ((chosen - 1) % LONGEST).numpy()
    impossible = (chosen == 0).numpy()
    return replace(
        examples,
        span_start=np.where(impossible, -1, first),
        span_end=np.where(impossible, -1, last),
        impossible=impossible,
    )


def is_right(predictions: Predictions, examples: Examples) -> FloatArray:
    """Whether each answer is the target, 0 or 1, (n,)."""
    answers = predictions.answers(0.0)
    equal = (answers.span_start == examples.span_start) & (answers.span_end == examples.span_end)
    return equal.astype(float)


@pytest.fixture(scope="module")
def calibrated() -> tuple[BiDAF, Examples]:
    """A model, and examples with targets from its own distribution."""
    model = make_model(small("char", hidden_size=8), seed=4, scale=3.0)
    return model, drawn(model, make_examples([9, 12, 7, 10] * 150), 1)


def test_overconfident_probabilities_are_corrected(calibrated: tuple[BiDAF, Examples]) -> None:
    model, examples = calibrated
    overconfident = make_model(small("char", hidden_size=8), seed=4, scale=3.0)
    sharpened(overconfident, 3)
    errors = {}
    for factor, own in ((1, model), (3, overconfident)):
        tempered = predict_tempered(own, examples, TYPES, LONGEST)
        right = is_right(tempered.predictions, examples)
        temperature = likeliest_temperature(tempered, 0.0, right)
        assert temperature == pytest.approx(factor, rel=0.25)
        for at in (1.0, temperature):
            score = tempered.at(at).answers(0.0).score
            errors[factor, at] = expected_calibration_error(reliability(np.exp(score), right))
    assert errors[3, 1.0] > 15 and errors[3, temperature] < 5


@pytest.mark.parametrize("window", [None, Window(8, 4)])
@pytest.mark.parametrize("temperature", [TEMPERATURES[3], 1.0, TEMPERATURES[30]])
def test_tempered_predictions_suit_the_temperature(
    calibrated: tuple[BiDAF, Examples], window: Window | None, temperature: float
) -> None:
    model, examples = calibrated
    expected, _ = predict(model, examples, TYPES, LONGEST, window, temperature=temperature)
    actual = predict_tempered(model, examples, TYPES, LONGEST, window).at(temperature)
    for column in ("span_start", "span_end"):
        assert (getattr(actual, column) == getattr(expected, column)).all()
    for column in ("span_score", "no_answer_score"):
        assert getattr(actual, column) == pytest.approx(getattr(expected, column), rel=1e-9)


def test_answers_are_those_without_scaling(calibrated: tuple[BiDAF, Examples]) -> None:
    model, examples = calibrated
    plain, _ = predict(model, examples, TYPES, LONGEST)
    scaled, _ = predict(model, examples, TYPES, LONGEST, temperature=2.0)
    for threshold in (-1.0, 0.0, 0.5):
        expected, actual = plain.answers(threshold), scaled.answers(threshold / 2)
        assert (expected.span_start == actual.span_start).all()
        assert (expected.span_end == actual.span_end).all()
    assert not np.allclose(plain.span_score, scaled.span_score)
