"""The mix of a language model's layers: its equation, its places and its penalty."""

from typing import Any

import numpy as np
import pytest
import torch

from models.batching import Batch, make_batch
from models.bidaf import BiDAF
from models.configs.variant import ContextualConfig
from models.modules.layer_mix import LayerMix
from models.trainer import Trainer
from tests.factories.models import LAYERS_SHAPE, make_examples, make_model, make_types, small

TYPES = make_types()
EXAMPLES = make_examples([9, 5, 7], [4, 2, 3])
SIZE = LAYERS_SHAPE[1]


def batch() -> Batch:
    return make_batch(EXAMPLES, TYPES, np.arange(3), 8)


def contextual_model(**changes: Any) -> BiDAF:
    return make_model(
        small("char-elmo", dropout=0.0, contextual=ContextualConfig(dropout=0.0, **changes))
    )


def test_mix_matches_the_equation() -> None:
    mix, layers = LayerMix(3, 0.0), torch.randn(2, 5, 3, 4)
    torch.testing.assert_close(mix(layers), layers.mean(2))
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([0.5, -1.0, 2.0]))
        mix.scale.fill_(1.7)
    shares = mix.weights.exp() / mix.weights.exp().sum()
    expected = 1.7 * sum(shares[k] * layers[:, :, k] for k in range(3))
    torch.testing.assert_close(mix(layers), expected)
    torch.testing.assert_close(mix(layers.half()), expected, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize(
    ("where", "places"), [("input", {"input"}), ("output", {"output"}), ("both", {*"io"})]
)
def test_each_place_has_a_mix_of_its_own(where: str, places: set[str]) -> None:
    model = contextual_model(where=where)
    plain = make_model(small("char"))
    at_input, at_output = (SIZE if place[0] in {p[0] for p in places} else 0 for place in "io")
    assert {place[0] for place in model.mixes} == {place[0] for place in places}
    now, before = (m.encoder.layers[0].ahead.input_size for m in (model, plain))
    assert now == before + at_input
    context, question, *_ = model.read(batch())
    assert context.shape[2] == question.shape[2] == 2 * model.config.hidden_size + at_output
    assert model(batch())[0].shape == plain(batch())[0].shape


def test_null_token_and_padding_have_no_vector() -> None:
    layers = batch().context_layers
    assert layers is not None and layers.shape == (3, 16, *LAYERS_SHAPE)
    assert not layers[:, 0].any()
    for row, length in enumerate([9, 5, 7]):
        assert layers[row, 1 : 1 + length].any(2).any(1).all()
        assert not layers[row, 1 + length :].any()


def test_penalty_is_the_squared_norm_of_all_weights() -> None:
    model = contextual_model(where="both", l2=0.25)
    with torch.no_grad():
        model.mixes["input"].weights.copy_(torch.tensor([1.0, 2.0, 0.0]))
        model.mixes["output"].weights.copy_(torch.tensor([0.0, 0.0, 3.0]))
    assert model.mix_penalty().item() == pytest.approx(0.25 * (1 + 4 + 9))
    assert make_model(small("char")).mix_penalty() is None


def test_training_applies_the_penalty() -> None:
    weights, nlls, gradients = torch.tensor([1.0, 0.0, -1.0]), [], []
    for l2 in (0.0, 0.5):
        variant = small("char-elmo", dropout=0.0, clip_norm=0.0)
        variant = variant.with_changes(contextual=ContextualConfig(dropout=0.0, l2=l2))
        model = make_model(variant)
        with torch.no_grad():
            model.mixes["input"].weights.copy_(weights)
        nlls.append(Trainer(model, variant.training).train_epoch(EXAMPLES, TYPES).nll)
        gradients.append(model.mixes["input"].weights.grad)
    assert nlls[0] == pytest.approx(nlls[1])
    torch.testing.assert_close(gradients[1] - gradients[0], 2 * 0.5 * weights)
