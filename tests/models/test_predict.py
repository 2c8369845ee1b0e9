"""Temperature scaling: the fitted temperature, on targets that a model's own distribution draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.batching import Examples, make_batch
from models.bidaf import BiDAF
from models.configs.variant import Window
from models.predict import TEMPERATURES, fit_temperature, predict
from models.span_decoding import span_scores, target_scores
from tasks.evaluation.metrics import expected_calibration_error, reliability
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


def calibration_error(model: BiDAF, examples: Examples, temperature: float) -> float:
    predictions, _ = predict(model, examples, TYPES, LONGEST, temperature=temperature)
    answers = predictions.answers(0.0)
    right = (answers.span_start == examples.span_start) & (answers.span_end == examples.span_end)
    return expected_calibration_error(reliability(np.exp(answers.score), right.astype(float)))


@pytest.fixture(scope="module")
def calibrated() -> tuple[BiDAF, Examples]:
    """A model, and examples with targets from its own distribution."""
    model = make_model(small("char", hidden_size=8), seed=4, scale=3.0)
    return model, drawn(model, make_examples([9, 12, 7, 10] * 150), 1)


def test_overconfident_probabilities_are_corrected(calibrated: tuple[BiDAF, Examples]) -> None:
    model, examples = calibrated
    assert fit_temperature(model, examples, TYPES, LONGEST) == pytest.approx(1, rel=0.1)
    overconfident = make_model(small("char", hidden_size=8), seed=4, scale=3.0)
    sharpened(overconfident, 3)
    temperature = fit_temperature(overconfident, examples, TYPES, LONGEST)
    assert temperature == pytest.approx(3, rel=0.1)
    before, after = (calibration_error(overconfident, examples, t) for t in (1.0, temperature))
    assert before > 15 and after < 5


def test_no_temperature_has_a_higher_likelihood(calibrated: tuple[BiDAF, Examples]) -> None:
    model, examples = calibrated
    batch = make_batch(examples, TYPES, np.arange(len(examples)), model.max_characters)
    with torch.no_grad():
        start, end = model.eval()(batch)
    fitted = fit_temperature(model, examples, TYPES, LONGEST)

    @given(st.sampled_from(TEMPERATURES))
    def check(other: float) -> None:
        nlls = [
            -target_scores(*span_scores(start, end, LONGEST, t), batch.start, batch.end).mean()
            for t in (fitted, other)
        ]
        assert nlls[0] <= nlls[1] + 1e-9

    check()


def test_answers_are_those_without_scaling(calibrated: tuple[BiDAF, Examples]) -> None:
    model, examples = calibrated
    plain, _ = predict(model, examples, TYPES, LONGEST)
    scaled, _ = predict(model, examples, TYPES, LONGEST, temperature=2.0)
    for threshold in (-1.0, 0.0, 0.5):
        expected, actual = plain.answers(threshold), scaled.answers(threshold / 2)
        assert (expected.span_start == actual.span_start).all()
        assert (expected.span_end == actual.span_end).all()
    assert not np.allclose(plain.span_score, scaled.span_score)


def test_windows_have_a_temperature_of_their_own() -> None:
    model = make_model(small("baseline", hidden_size=8), seed=4, scale=3.0)
    examples = make_examples([30, 25, 9, 40])
    joined = fit_temperature(model, examples, TYPES, LONGEST, Window(12, 5))
    assert joined != fit_temperature(model, examples, TYPES, LONGEST)


def test_temperature_is_one_without_targets() -> None:
    examples = make_examples([5, 6])
    nothing = np.array([-1, -1])
    unknown = replace(examples, span_start=nothing, span_end=nothing)
    model = make_model(small("baseline"))
    assert fit_temperature(model, unknown, TYPES, LONGEST) == 1
