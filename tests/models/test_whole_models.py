"""Whole models against the formulas of their sources, written as loops over one example.

The blocks have references of their own; these here are about how blocks are put together.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from models.batching import make_batch
from models.bidaf import BiDAF
from tests.models.making import make_examples, make_model, make_types, small

Array = npt.NDArray[np.float64]
Weights = dict[str, Array]

TYPES = make_types()
NULL = 1


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    out: Array = e / e.sum()
    return out


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def linear(w: Weights, name: str, x: Array) -> Array:
    out: Array = w[f"{name}.weight"] @ x
    return out + w.get(f"{name}.bias", np.float64(0))


def word(w: Weights, vectors: Array, kind: int, longest: int) -> Array:
    """[word vector; character vector]: each filter's largest ReLU over the places of a word."""
    spelt = [w["words.characters.embedding.weight"][c] for c in TYPES.characters[kind][:longest]]
    kernel = w["words.characters.convolutions.0.weight"]  # (filters, size, width)
    bias = w["words.characters.convolutions.0.bias"]
    width = kernel.shape[2]
    spelt += [np.zeros(kernel.shape[1])] * (width - len(spelt))
    features = []
    for f in range(len(kernel)):
        best = 0.0  # what ReLU gives at least
        for place in range(len(spelt) - width + 1):
            match = sum(kernel[f, :, i] @ spelt[place + i] for i in range(width))
            best = max(best, float(match + bias[f]))
        features.append(best)
    return np.concatenate([vectors[TYPES.words[kind]], features])


def highway(w: Weights, x: Array) -> Array:
    for layer in range(2):
        t = sigmoid(linear(w, f"words.highway.gates.{layer}", x))
        new = np.maximum(0, linear(w, f"words.highway.transforms.{layer}", x))
        x = t * new + (1 - t) * x
    return x


def lstm(w: Weights, name: str, rows: list[Array]) -> list[Array]:
    d = w[f"{name}.weight_hh_l0"].shape[1]
    h, c, out = np.zeros(d), np.zeros(d), []
    for x in rows:
        gates = w[f"{name}.weight_ih_l0"] @ x + w[f"{name}.bias_ih_l0"]
        gates = gates + w[f"{name}.weight_hh_l0"] @ h + w[f"{name}.bias_hh_l0"]
        i, f, g, o = gates.reshape(4, d)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return out


def bilstm(w: Weights, name: str, rows: list[Array], layers: int = 1) -> list[Array]:
    for layer in range(layers):
        ahead = lstm(w, f"{name}.layers.{layer}.ahead", rows)
        back = lstm(w, f"{name}.layers.{layer}.back", rows[::-1])[::-1]
        rows = [np.concatenate(pair) for pair in zip(ahead, back, strict=True)]
    return rows


def attention_flow(w: Weights, h: list[Array], u: list[Array]) -> list[Array]:
    """G = [h; ũ; h∘ũ; h∘h̃] (Seo et al., 2017, eq. 1 to 4)."""
    names = ("context_weight", "question_weight", "product_weight")
    alpha = np.concatenate([w[f"attention.similarity.{name}"].ravel() for name in names])
    s = np.array([[alpha @ np.concatenate([a, b, a * b]) for b in u] for a in h])
    s = s + w["attention.similarity.bias"]
    question = [sum(p * b for p, b in zip(softmax(row), u, strict=True)) for row in s]
    weights = softmax(s.max(1))
    context = sum(p * a for p, a in zip(weights, h, strict=True))
    return [np.concatenate([a, q, a * q, a * context]) for a, q in zip(h, question, strict=True)]


def self_matching(w: Weights, g: list[Array]) -> list[Array]:
    """BiLSTM([p; c]), c_t = Σ_j softmax_j(vᵀtanh(W₁p_j + W₂p_t))·p_j (the CS224n report, eq. 3,
    5 and 6)."""
    v = w["matching.similarity.weight"][0]
    rows = []
    for p in g:
        to = linear(w, "matching.similarity.of_attending", p)
        s = [v @ np.tanh(linear(w, "matching.similarity.of_attended", q) + to) for q in g]
        found = sum(a * q for a, q in zip(softmax(np.array(s)), g, strict=True))
        rows.append(np.concatenate([p, found]))
    return bilstm(w, "matching.encoder", rows)


def pointer(w: Weights, end: str, g: list[Array], m: list[Array]) -> Array:
    return np.array(
        [
            (linear(w, f"output.{end}_attention", a) + linear(w, f"output.{end}_modeling", b))[0]
            for a, b in zip(g, m, strict=True)
        ]
    )


def given_start(g: list[Array], m: list[Array], start: Array) -> list[Array]:
    """[G; M; a¹; M∘a¹], a¹ = Σ p¹M (the code of Seo et al.)."""
    found = sum(p * row for p, row in zip(softmax(start), m, strict=True))
    return [np.concatenate([a, b, found, b * found]) for a, b in zip(g, m, strict=True)]


def logits(
    w: Weights, embedded: list[list[Array]], matches: bool = False, conditioned: bool = False
) -> Array:
    """(2, T) from the embedded context and question."""
    h, u = (bilstm(w, "encoder", rows) for rows in embedded)
    g = attention_flow(w, h, u)
    m = bilstm(w, "modeling", self_matching(w, g) if matches else g, layers=2)
    start = pointer(w, "start", g, m)
    read = given_start(g, m, start) if conditioned else m
    return np.array([start, pointer(w, "end", g, bilstm(w, "output.encoder", read))])


def numbers(model: BiDAF) -> Weights:
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("name", ["char", "char-selfattn", "seo2016"])
@torch.no_grad()
def test_a_whole_model_is_its_formulas(name: str) -> None:
    model = make_model(small(name, hidden_size=3), seed=2, scale=2.0).double().eval()
    # All weights are drawn anew: none is zero, and no two are the same.
    for weight in model.parameters():
        weight += 0.3 * torch.randn_like(weight)
    assert model.words.characters is not None
    model.words.characters.embedding.weight[0] = 0
    examples = make_examples([9, 4], [5, 2], seed=3)
    found = torch.stack(model(make_batch(examples, TYPES, np.array([0, 1]), 8)), 1).numpy()
    w, vectors = numbers(model), model.words.word_vectors.numpy()
    for i in range(2):
        texts = examples.contexts[i], examples.questions[i]
        words = [[word(w, vectors, kind, 8) for kind in [NULL, *text]] for text in texts]
        if name == "seo2016":
            embedded = [[highway(w, x) for x in text] for text in words]
            expected = logits(w, embedded, conditioned=True)
        else:
            embedded = [[highway(w, linear(w, "words.projection", x)) for x in t] for t in words]
            expected = logits(w, embedded, matches=name == "char-selfattn")
        assert np.ptp(expected, 1).min() > 0.1, "the logits differ"
        np.testing.assert_allclose(found[i, :, : expected.shape[1]], expected, atol=1e-9)
