"""The whole model: parameter counts, effect of padding, smallest inputs, and initial weights."""

import inspect
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import models.configs.presets
from infra.settings import CHECKOUT
from models.batching import Examples, make_batch
from models.bidaf import BiDAF
from models.configs.presets import PRESETS
from models.modules.layers import MASKED
from models.span_decoding import best_spans
from tests.factories.models import make_examples, make_model, make_types, small

TYPES = make_types()
all_presets = pytest.mark.parametrize("name", PRESETS)


def logits(model: BiDAF, examples: Examples, rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    model.eval()
    with torch.no_grad():
        start, end = model(make_batch(examples, TYPES, np.array(rows), model.max_characters))
    return start, end


# Parameters for word vectors of size 100 and for 100 characters. An LSTM direction with n inputs
# and h units has 4·(n·h + h·h + 2·h) parameters, a GRU direction 3·(…), a linear map n·m + m.
# baseline, d = 100: projection 10,000; highway 2·2·(100² + 100) = 40,400; contextual BiLSTM
#   2·(400·200 + 800) = 161,600; attention 3·200 + 1 = 601; modeling 2·(400·900 + 800) +
#   2·(400·300 + 800) = 963,200; output 2·(801 + 201) + 2·(400·300 + 800) = 243,604.
# char: embedding 6,400, CNN 5·64·100 + 100 = 32,100, projection 20,000 instead of 10,000.
# seo2016: embedding 800, CNN 4,100; highway 2·2·(200² + 200) = 160,800; contextual BiLSTM
#   2·(400·300 + 800) = 241,600; attention 601; modeling 963,200; output 2·(801 + 201) + the end's
#   BiLSTM over 800 + 600: 2·(400·1500 + 800) = 1,203,604. (TensorFlow's LSTMs have one bias, so
#   3,200 parameters fewer; both counts round to 2.57 million.)
# docqa: embedding 2,000, CNN 10,100; contextual BiGRU 2·(300·300 + 600) = 181,200; attention 601;
#   reduction 800·200 + 200 = 160,200; BiGRU 2·(300·300 + 600) = 181,200; similarity 601 + 1;
#   merging 600·200 + 200 = 120,200; output BiGRUs 181,200 + 2·(300·500 + 600) = 301,200, 2·201.
COUNTS = {
    "baseline": 1_419_405,
    "char": 1_467_905,
    "char-selfattn": 1_434_330,
    "char-selfattn-dot": 1_434_330 - 75,  # no weight vector v
    "char-selfattn-v1": 252_885,
    "seo2016": 2_574_705,
    "char-only": 2_399_505,
    "kim-char": 4_433_280,
    "docqa": 1_138_905,
    "elmo": 2_574_705 + 2 * 400 * 640 + 4,
    "char-elmo": 1_467_905 + 2 * 400 * 640 + 4,
}


@all_presets
def test_parameter_count_matches_documentation(name: str) -> None:
    """The presets' comments and docs/variants.md both state the count."""
    model = BiDAF(PRESETS[name].model, torch.zeros(9, 100), 100, layers_shape=(3, 640))
    assert sum(p.numel() for p in model.parameters()) == COUNTS[name]
    constant = name.upper().replace("-", "_")
    before, _, _ = inspect.getsource(models.configs.presets).partition(f"\n{constant} =")
    comment = before.rpartition("\n\n")[2].replace("\n#", "")
    assert f"{COUNTS[name]:,} parameters" in comment
    row = rf"^\| `{name}` .*\| {COUNTS[name]:,} \|"
    assert re.search(row, (CHECKOUT / "docs" / "variants.md").read_text("utf-8"), re.MULTILINE)


@settings(max_examples=15)
@given(
    name=st.sampled_from(list(PRESETS)),
    lengths=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 6)), min_size=2, max_size=6),
    seed=st.integers(0, 99),
)
def test_padding_does_not_change_logits(
    name: str, lengths: list[tuple[int, int]], seed: int
) -> None:
    model = make_model(small(name), seed)
    examples = make_examples([t for t, _ in lengths], [j for _, j in lengths], seed)
    together = torch.stack(logits(model, examples, list(range(len(lengths)))))
    for i, (tokens, _) in enumerate(lengths):
        alone = torch.stack(logits(model, examples, [i]))
        real = slice(tokens + 1)
        torch.testing.assert_close(together[:, i, real], alone[:, 0, real], rtol=0, atol=1e-5)
        for out in (together[:, i], alone[:, 0]):
            assert (out[:, tokens + 1 :] == MASKED).all()


@all_presets
@pytest.mark.parametrize(("tokens", "question"), [(1, 1), (1, 0), (1, 6), (9, 1), (9, 0)])
def test_smallest_inputs_give_valid_spans(name: str, tokens: int, question: int) -> None:
    model = make_model(small(name))
    start, end = logits(model, make_examples([tokens], [question]), [0])
    for out in (start, end):
        real, padding = out[0, : tokens + 1], out[0, tokens + 1 :]
        assert real.isfinite().all() and (real > MASKED).all() and (padding == MASKED).all()
    first, last, score, _ = best_spans(start, end, 15)
    assert 1 <= first.item() <= last.item() <= tokens
    assert score.item() < 0


def test_recurrent_init_is_orthogonal_with_forget_bias() -> None:
    """LSTM forget biases are 1, all other biases 0; each gate's recurrent matrix is orthogonal."""
    kinds = {"baseline": (torch.nn.LSTM, 4), "docqa": (torch.nn.GRU, 3)}
    for name, (kind, gates) in kinds.items():
        layers = [
            module for module in make_model(small(name)).modules() if isinstance(module, kind)
        ]
        assert len(layers) == 8
        for layer in layers:
            biases = (layer.bias_ih_l0 + layer.bias_hh_l0).view(gates, -1)
            forget = [float(gates == 4 and gate == 1) for gate in range(gates)]  # i, f, g, o
            assert biases.tolist() == [[bias] * layer.hidden_size for bias in forget]
            for gate in layer.weight_hh_l0.chunk(gates):
                torch.testing.assert_close(gate @ gate.T, torch.eye(layer.hidden_size))
