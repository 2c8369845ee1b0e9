"""Whole models match the formulas of their sources, written as loops over one example.

The tests of single blocks have their own references; these tests check how blocks are combined.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest
import torch

from models.batching import make_batch
from models.bidaf import BiDAF
from models.configs.presets import PRESETS
from tests.factories.models import make_examples, make_model, make_types, small

Array = npt.NDArray[np.float64]
Rows = list[Array]  # a vector for each token of a text
Texts = list[Rows]  # context and question: their embedded tokens, or their contextual vectors
Weights = dict[str, Array]
Similarity = Callable[[Weights, Array, Array], float]
ToContext = Callable[[Array, Rows], Rows]

TYPES = make_types()
NULL = 1
LONGEST = 8  # number of characters that are read of a word


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    out: Array = e / e.sum()
    return out


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def linear(w: Weights, name: str, x: Array) -> Array:
    out: Array = w[f"{name}.weight"] @ x
    return out + w.get(f"{name}.bias", np.float64(0))


def relu(x: Array) -> Array:
    return np.maximum(0, x)


def word(w: Weights, vectors: Array, kind: int) -> Array:
    """[word vector; character vector], or the part of it that the model has."""
    parts = [vectors[TYPES.words[kind]]]
    for name in w:
        if name.startswith("words.characters.convolutions.") and name.endswith(".weight"):
            parts.append(best_matches(w, name.removesuffix(".weight"), kind))
    return np.concatenate(parts)


def best_matches(w: Weights, name: str, kind: int) -> Array:
    """The maximum of each filter's ReLU over the positions of a word, (filters,)."""
    embedded = [w["words.characters.embedding.weight"][c] for c in TYPES.characters[kind][:LONGEST]]
    kernel, bias = w[f"{name}.weight"], w[f"{name}.bias"]  # (filters, size, width), (filters,)
    width = kernel.shape[2]
    embedded += [np.zeros(kernel.shape[1])] * (width - len(embedded))
    best = np.zeros(len(kernel))  # the minimum of ReLU
    for place in range(len(embedded) - width + 1):
        match = sum(kernel[:, :, i] @ embedded[place + i] for i in range(width))
        best = np.maximum(best, match + bias)
    return best


def highway(w: Weights, x: Array) -> Array:
    for layer in range(2):
        t = sigmoid(linear(w, f"words.highway.gates.{layer}", x))
        new = relu(linear(w, f"words.highway.transforms.{layer}", x))
        x = t * new + (1 - t) * x
    return x


def lstm(w: Weights, name: str, rows: Rows) -> Rows:
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


def gru(w: Weights, name: str, rows: Rows) -> Rows:
    """cuDNN's GRU: the reset gate is applied after the recurrent matrix and its bias."""
    d = w[f"{name}.weight_hh_l0"].shape[1]
    h, out = np.zeros(d), []
    for x in rows:
        from_input = (w[f"{name}.weight_ih_l0"] @ x + w[f"{name}.bias_ih_l0"]).reshape(3, d)
        from_hidden = (w[f"{name}.weight_hh_l0"] @ h + w[f"{name}.bias_hh_l0"]).reshape(3, d)
        r, z = sigmoid(from_input[:2] + from_hidden[:2])
        h = (1 - z) * np.tanh(from_input[2] + r * from_hidden[2]) + z * h
        out.append(h)
    return out


def joined(*texts: Rows) -> Rows:
    return [np.concatenate(rows) for rows in zip(*texts, strict=True)]


def bilstm(w: Weights, name: str, rows: Rows, layers: int = 1) -> Rows:
    for layer in range(layers):
        ahead = lstm(w, f"{name}.layers.{layer}.ahead", rows)
        rows = joined(ahead, lstm(w, f"{name}.layers.{layer}.back", rows[::-1])[::-1])
    return rows


def bigru(w: Weights, name: str, rows: Rows) -> Rows:
    return joined(gru(w, f"{name}.ahead", rows), gru(w, f"{name}.back", rows[::-1])[::-1])


def weighted(weights: Array, rows: Rows) -> Array:
    out: Array = sum((a * row for a, row in zip(weights, rows, strict=True)), 0 * rows[0])
    return out


def trilinear(w: Weights, name: str, left: Rows, right: Rows) -> Array:
    """s_tj = α·[h_t; u_j; h_t∘u_j] + b (Seo et al., 2017, eq. 1)."""
    parts = ("context_weight", "question_weight", "product_weight")
    alpha = np.concatenate([w[f"{name}.{part}"].ravel() for part in parts])
    s = np.array([[alpha @ np.concatenate([a, b, a * b]) for b in right] for a in left])
    out: Array = s + w[f"{name}.bias"]
    return out


def best_matching(s: Array, h: Rows) -> Rows:
    """The same h̃ for each t: the context weighted by best-matching words (Seo et al., 2017, §2)."""
    return [weighted(softmax(s.max(1)), h)] * len(h)


def starter_product(s: Array, h: Rows) -> Rows:
    """S₁S₂ᵀH (the CS224n starter code)."""
    by_question_word = [weighted(softmax(column), h) for column in s.T]
    return [weighted(softmax(row), by_question_word) for row in s]


def attention_flow(w: Weights, h: Rows, u: Rows, to_context: ToContext = best_matching) -> Rows:
    """G = [h; ũ; h∘ũ; h∘h̃] (Seo et al., 2017, §2)."""
    s = trilinear(w, "attention.similarity", h, u)
    question, context = [weighted(softmax(row), u) for row in s], to_context(s, h)
    return [
        np.concatenate([a, q, a * q, a * c]) for a, q, c in zip(h, question, context, strict=True)
    ]


def additive(w: Weights, p_j: Array, p_t: Array) -> float:
    """vᵀtanh(W₁p_j + W₂p_t) (the CS224n report, eq. 3)."""
    name = "matching.similarity"
    added = linear(w, f"{name}.of_attended", p_j) + linear(w, f"{name}.of_attending", p_t)
    return float(linear(w, name, np.tanh(added))[0])


def dot(w: Weights, p_j: Array, p_t: Array) -> float:
    """(W₁p_j)·(W₂p_t) (the CS224n report, §5.3)."""
    name = "matching.similarity"
    return float(linear(w, f"{name}.of_attended", p_j) @ linear(w, f"{name}.of_attending", p_t))


def elementwise(w: Weights, p_j: Array, p_t: Array) -> float:
    """v·(p_t∘p_j) (the CS224n report, §5.2)."""
    return float(linear(w, "matching.similarity", p_t * p_j)[0])


def self_matching(w: Weights, p: Rows, similarity: Similarity) -> Rows:
    """BiLSTM([p; c]), c_t = Σ_j softmax_j(s_tj)·p_j (the CS224n report, eq. 5 and 6)."""
    scores = [np.array([similarity(w, p_j, p_t) for p_j in p]) for p_t in p]
    return bilstm(w, "matching.encoder", joined(p, [weighted(softmax(s), p) for s in scores]))


def masked_self_attention(w: Weights, m: Rows) -> Rows:
    """c_t = Σ_j a_tj·m_j with a_tj ∝ exp(s_tj) and a_tt = 0 (the code of Clark & Gardner).

    A learned logit takes part in the softmax and contributes no vector.
    """
    s = np.exp(trilinear(w, "modeling.similarity", m, m))
    np.fill_diagonal(s, 0)
    return [weighted(row / (row.sum() + np.exp(w["modeling.nothing"])), m) for row in s]


def pointer(w: Weights, end: str, g: Rows, m: Rows) -> Array:
    return np.array(
        [
            (linear(w, f"output.{end}_attention", a) + linear(w, f"output.{end}_modeling", b))[0]
            for a, b in zip(g, m, strict=True)
        ]
    )


# Models: from the embedded texts to the logits of start and end, (2, T)


def contextual(w: Weights, layers: Array) -> Rows:
    """γ·Σ softmax(w)·layer of each token (Peters et al., 2018, eq. 1); empty vectors without."""
    if "mixes.input.weights" not in w:
        return [np.empty(0)] * len(layers)
    shares = w["mixes.input.scale"] * softmax(w["mixes.input.weights"])
    return [weighted(shares, list(token)) for token in layers]


def cs224n(
    w: Weights,
    texts: Texts,
    added: Texts,
    to_context: ToContext = best_matching,
    similarity: Similarity | None = None,
    output_reads_matched: bool = False,
) -> Array:
    """The CS224n starter, and the models that the CS224n report derives from it."""
    h, u = (
        bilstm(w, "encoder", joined([highway(w, linear(w, "words.projection", x)) for x in t], c))
        for t, c in zip(texts, added, strict=True)
    )
    g = attention_flow(w, h, u, to_context)
    matched = self_matching(w, g, similarity) if similarity else g
    m = bilstm(w, "modeling", matched, layers=2)
    read = matched if output_reads_matched else g
    end = pointer(w, "end", read, bilstm(w, "output.encoder", m))
    return np.array([pointer(w, "start", read, m), end])


def seo2016(w: Weights, texts: Texts, added: Texts) -> Array:
    """The original; the encoder of the end reads [G; M; a¹; M∘a¹] with a¹ = Σ p¹M."""
    h, u = (
        bilstm(w, "encoder", joined([highway(w, x) for x in text], c))
        for text, c in zip(texts, added, strict=True)
    )
    g = attention_flow(w, h, u)
    m = bilstm(w, "modeling", g, layers=2)
    start = pointer(w, "start", g, m)
    start_vector = weighted(softmax(start), m)
    end_input = [
        np.concatenate([a, b, start_vector, b * start_vector]) for a, b in zip(g, m, strict=True)
    ]
    return np.array([start, pointer(w, "end", g, bilstm(w, "output.encoder", end_input))])


def docqa(w: Weights, texts: Texts, added: Texts) -> Array:
    """The paragraph model of Clark & Gardner (2018, §2)."""
    h, u = (bigru(w, "encoder.layers.0", joined(*text)) for text in zip(texts, added, strict=True))
    x = [relu(linear(w, "modeling.reduction", a)) for a in attention_flow(w, h, u)]
    m = bigru(w, "modeling.encoder.layers.0", x)
    merged = []
    for a, b, c in zip(x, m, masked_self_attention(w, m), strict=True):
        merged.append(a + relu(linear(w, "modeling.merging", np.concatenate([c, b, c * b]))))
    first = bigru(w, "output.start_encoder", merged)
    last = bigru(w, "output.end_encoder", joined(merged, first))
    ends = [("output.start", first), ("output.end", last)]
    return np.array([[linear(w, name, row)[0] for row in rows] for name, rows in ends])


MODELS: dict[str, Callable[[Weights, Texts, Texts], Array]] = {
    "baseline": partial(cs224n, to_context=starter_product),
    "char": cs224n,
    "char-selfattn": partial(cs224n, similarity=additive),
    "char-selfattn-dot": partial(cs224n, similarity=dot),
    "char-selfattn-v1": partial(cs224n, similarity=elementwise, output_reads_matched=True),
    "seo2016": seo2016,
    "char-only": seo2016,
    "kim-char": seo2016,
    "docqa": docqa,
    "elmo": seo2016,
    "char-elmo": cs224n,
}


def weights_of(model: BiDAF) -> Weights:
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("name", PRESETS)
@torch.no_grad()
def test_presets_match_their_reference_formulas(name: str) -> None:
    model = make_model(small(name, hidden_size=3), seed=2, scale=2.0).double().eval()
    # Noise on all weights: none is zero, and no two are equal.
    for weight in model.parameters():
        weight += 0.3 * torch.randn_like(weight)
    if model.words.characters is not None:
        model.words.characters.embedding.weight[0] = 0
    examples = make_examples([9, 4], [5, 2], seed=3)
    batch = make_batch(examples, TYPES, np.array([0, 1]), model.max_characters)
    logits = torch.stack(model(batch), 1).numpy()
    w, vectors = weights_of(model), model.words.word_vectors.numpy()
    assert batch.context_layers is not None and batch.question_layers is not None
    for i in range(2):
        texts = examples.contexts[i], examples.questions[i]
        embedded = [[word(w, vectors, kind) for kind in [NULL, *text]] for text in texts]
        added = [
            contextual(w, layers[i].double().numpy()[: 1 + len(text)])
            for layers, text in zip(
                (batch.context_layers, batch.question_layers), texts, strict=True
            )
        ]
        expected = MODELS[name](w, embedded, added)
        assert np.ptp(expected, 1).min() > 0.1, "the logits differ"
        np.testing.assert_allclose(logits[i, :, : expected.shape[1]], expected, atol=1e-9)
