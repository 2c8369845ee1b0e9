"""The whole model: parameter counts, layer sizes, effect of padding, and smallest inputs."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import models.configs.presets
from infra.settings import CHECKOUT
from models.batching import Examples, Ragged, Types, make_batch
from models.bidaf import BiDAF
from models.configs.presets import PRESETS
from models.modules.layers import MASKED
from models.span_decoding import best_spans
from tests.factories.models import WORDS, make_examples, make_model, make_types, small

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


@all_presets
def test_word_vectors_are_frozen_and_not_in_state_dict(name: str) -> None:
    model = make_model(small(name))
    assert not model.words.word_vectors.requires_grad
    assert not any("word_vectors" in key for key in model.state_dict())
    assert set(model.state_dict()) == {key for key, _ in model.named_parameters()}


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
def test_batched_answers_equal_single_answers(name: str) -> None:
    model = make_model(small(name, hidden_size=20), seed=1, scale=2.0).double()
    examples = make_examples([30, 1, 7, 18, 2, 25], [5, 1, 9, 0, 2, 12])
    first, last, score, _ = best_spans(*logits(model, examples, list(range(6))), 5)
    for i in range(6):
        own_first, own_last, own_score, _ = best_spans(*logits(model, examples, [i]), 5)
        assert (own_first.item(), own_last.item()) == (first[i].item(), last[i].item())
        assert own_score.item() == pytest.approx(score[i].item(), abs=1e-9)
    assert len({tuple(span) for span in torch.stack([first, last], 1).tolist()}) > 2


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


@all_presets
def test_logits_depend_on_the_question(name: str) -> None:
    examples = make_examples([9, 9], [3, 3])
    same_context = Examples(
        examples.contexts,
        examples.questions,
        np.array([0, 0]),
        examples.span_start,
        examples.span_end,
        examples.impossible,
        examples.context_layers,
        examples.question_layers,
    )
    start, _ = logits(make_model(small(name)), same_context, [0, 1])
    assert not torch.allclose(start[0], start[1], atol=1e-4)


def make_spelled_types(word: int, characters: list[list[int]]) -> Types:
    """Types that all have the same word; types 2, 3… have the given characters."""
    return Types(
        np.array([0, 1] + [word] * len(characters), dtype=np.int32),
        Ragged.from_rows([[], [1], *characters]),
    )


def start_of(model: BiDAF, types: Types) -> torch.Tensor:
    examples = Examples(
        contexts=Ragged.from_rows([[2, 3]]),
        questions=Ragged.from_rows([[2]]),
        context_of=np.array([0]),
        span_start=np.array([0]),
        span_end=np.array([0]),
        impossible=np.array([False]),
    )
    model.eval()
    with torch.no_grad():
        out: torch.Tensor = model(make_batch(examples, types, np.array([0]), model.max_characters))[
            0
        ]
    return out


def test_characters_distinguish_unknown_words() -> None:
    """Both words are unknown: only their characters differ."""
    types, other = make_spelled_types(1, [[5, 6], [7]]), make_spelled_types(1, [[5, 6], [8, 9, 10]])
    char, baseline = make_model(small("char")), make_model(small("baseline"))
    assert not torch.allclose(start_of(char, types), start_of(char, other), atol=1e-6)
    assert torch.equal(start_of(baseline, types), start_of(baseline, other))


def test_long_words_are_truncated() -> None:
    model = make_model(small("char"))
    word = [5] * 7 + [9] * 293
    cut, longer = make_spelled_types(5, [[4], word[:8]]), make_spelled_types(5, [[4], word])
    assert torch.equal(start_of(model, longer), start_of(model, cut))
    assert not torch.equal(
        start_of(model, longer), start_of(model, make_spelled_types(5, [[4], word[:7]]))
    )


def test_model_uses_the_given_word_vectors() -> None:
    vectors = torch.zeros(WORDS, 4)
    vectors[7] = 1.0
    model = BiDAF(small("baseline").model, vectors, 20)
    batch = make_batch(make_examples([3]), TYPES, np.array([0]), model.max_characters)
    actual = model.words.embed_types(batch)
    assert torch.equal(actual, vectors[batch.type_words])


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


def test_presets_build_expected_layer_sizes() -> None:
    """Parts of the forward pass, identified by the layer sizes that differ between presets."""
    built = {
        name: BiDAF(variant.model, torch.zeros(9, 100), 100, layers_shape=(3, 640))
        for name, variant in PRESETS.items()
    }
    assert built["char-elmo"].encoder.layers[0].ahead.input_size == 100 + 640
    assert built["elmo"].encoder.layers[0].ahead.input_size == 200 + 640
    assert [built[name].words.size for name in ("char", "seo2016", "kim-char")] == [100, 200, 625]
    assert [built[name].words.size for name in ("char-only", "docqa")] == [100, 200]
    assert built["char-only"].words.word_vectors.shape == (9, 0)
    assert built["seo2016"].output.encoder.layers[0].ahead.input_size == 800 + 600
    assert built["char"].output.encoder.layers[0].ahead.input_size == 200
    for name in ("char-selfattn", "char-selfattn-dot"):
        assert built[name].matching.encoder.layers[0].ahead.input_size == 2 * 600
        assert built[name].modeling.layers[0].ahead.input_size == 150
        assert built[name].output.start_attention.in_features == 600
    assert built["char-selfattn-v1"].output.start_attention.in_features == 60
