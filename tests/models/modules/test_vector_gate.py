"""The learned gate over several sets of word vectors."""

import torch

from models.bidaf import BiDAF
from models.modules.vector_gate import VectorGate
from models.word_representation import WordRepresentation
from tests.factories.models import small


def with_flags(*parts: tuple[torch.Tensor, list[int]]) -> torch.Tensor:
    """Vectors of sets side by side, each with its flags of known words; zero where unknown."""
    columns = []
    for vectors, known in parts:
        flags = torch.tensor(known, dtype=torch.float32).unsqueeze(1)
        columns += [vectors * flags, flags]
    return torch.cat(columns, dim=1)


def test_gate_of_one_set_is_that_set() -> None:
    gate, vectors = VectorGate([6], 6), torch.randn(5, 6)
    torch.nn.init.eye_(gate.projections[0].weight)
    torch.testing.assert_close(gate(with_flags((vectors, [1] * 5))), vectors)


def test_gate_matches_the_equation_word_by_word() -> None:
    torch.manual_seed(0)
    gate, a, b = VectorGate([3, 5], 4), torch.randn(2, 3), torch.randn(2, 5)
    mixed = gate(with_flags((a, [1, 1]), (b, [1, 1])))
    for word in range(2):
        projected = [gate.projections[i].weight @ part[word] for i, part in enumerate((a, b))]
        scores = torch.stack([gate.score.weight[0] @ vector for vector in projected])
        weights = scores.exp() / scores.exp().sum()
        expected = weights[0] * projected[0] + weights[1] * projected[1]
        torch.testing.assert_close(mixed[word], expected)


def test_sets_that_lack_a_word_have_no_weight() -> None:
    gate, a, b = VectorGate([3, 3], 4), torch.randn(3, 3), torch.randn(3, 3)
    mixed = gate(with_flags((a, [1, 0, 0]), (b, [0, 1, 0])))
    torch.testing.assert_close(mixed[0], gate.projections[0].weight @ a[0])
    torch.testing.assert_close(mixed[1], gate.projections[1].weight @ b[1])
    assert not mixed[2].any(), "a word that no set knows stays zero"


def test_model_reads_gated_vectors_and_trains_the_gate() -> None:
    config = small("char", vector_gate=7).model
    vectors = with_flags((torch.randn(9, 4), [0, 0, *[1] * 7]), (torch.randn(9, 2), [0] * 9))
    words = WordRepresentation(config, vectors, 20, [4, 2])
    assert words.size == config.hidden_size  # projected
    model = BiDAF(config, vectors, 20, [4, 2])
    names = {name for name, _ in model.named_parameters() if "gate." in name}
    assert {"words.gate.projections.1.weight", "words.gate.score.weight"} <= names


def test_adds_trained_unknown_words_after_the_gate() -> None:
    config = small("baseline", vector_gate=7, unknown_words="trainable").model
    vectors = with_flags((torch.randn(5, 4), [0, 0, 1, 1, 0]), (torch.randn(5, 2), [0] * 5))
    words = WordRepresentation(config, vectors, 20, [4, 2])
    assert words.unknown is not None and words.unknown.vectors.shape == (2, 7)
