"""Warm starts: weights carried over from one model to the next."""

import pytest
import torch

from models.bidaf import BiDAF
from models.warm_start import CHARACTER_EMBEDDING, TRAINED_WORDS, copy_weights
from tests.factories.models import WORDS, small

BEFORE, NOW = ["<padding>", "<unknown>", "a", "b", "c"], ["<padding>", "<unknown>", "c", "é", "a"]
CHARACTERS = {CHARACTER_EMBEDDING: (BEFORE, NOW)}


def model(name: str, seed: int, characters: int = 5, **changes: object) -> BiDAF:
    """A model with this many characters."""
    torch.manual_seed(seed)
    vectors = torch.randn(WORDS, 6, generator=torch.Generator().manual_seed(0))
    return BiDAF(small(name, **changes).model, vectors, characters)


def weights_of(network: BiDAF) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in network.named_parameters()}


def test_weights_carry_over_by_name_and_character() -> None:
    earlier, new = weights_of(model("char", 1)), model("char", 2)
    drawn = weights_of(new)
    carried = copy_weights(new, earlier, CHARACTERS)
    now = weights_of(new)
    embeddings = now.pop(CHARACTER_EMBEDDING)
    assert all(torch.equal(now[name], earlier[name]) for name in now)
    for row, before in ((0, 0), (1, 1), (2, 4), (4, 2)):
        assert torch.equal(embeddings[row], earlier[CHARACTER_EMBEDDING][before])
    assert torch.equal(embeddings[3], drawn[CHARACTER_EMBEDDING][3]), "é is new"
    assert (carried.rows, carried.fresh) == ({CHARACTER_EMBEDDING: 4}, [])
    assert set(carried.parameters) == set(earlier)
    numbers = sum(weight.numel() for weight in earlier.values())
    assert carried.share == (numbers - embeddings.shape[1]) / numbers, "all but the embedding of é"


def test_missing_weights_are_freshly_initialized() -> None:
    earlier, new = weights_of(model("baseline", 1)), model("char", 2)
    drawn = weights_of(new)
    carried = copy_weights(new, earlier, CHARACTERS)
    now = weights_of(new)
    fresh = {n for n in now if n.startswith("words.characters.")} | {"words.projection.weight"}
    assert set(carried.fresh) == fresh
    assert all(torch.equal(now[name], drawn[name]) for name in fresh)
    assert all(torch.equal(now[name], earlier[name]) for name in now.keys() - fresh)


def test_rejects_another_hidden_size() -> None:
    earlier, new = weights_of(model("char", 1)), model("char", 2, hidden_size=7)
    with pytest.raises(ValueError, match=r"encoder\..* is 24 × 6, but the new model needs 28 × 7$"):
        copy_weights(new, earlier, CHARACTERS)


def test_other_embedding_size_is_reinitialized() -> None:
    earlier = weights_of(model("char", 1))
    earlier[CHARACTER_EMBEDDING] = torch.zeros(5, 9)
    carried = copy_weights(model("char", 2), earlier, CHARACTERS)
    assert carried.fresh == [CHARACTER_EMBEDDING]
    assert carried.rows == {}


def test_trained_word_rows_carry_over_by_word() -> None:
    changes = {"unknown_words": "trainable"}
    vectors = torch.ones(7, 6)
    vectors[[0, 1, 3, 4]] = 0
    earlier, new = (
        BiDAF(small("char", **changes).model, table, 5) for table in (vectors, vectors[:5])
    )
    weights = weights_of(earlier)
    weights[TRAINED_WORDS] = torch.arange(18.0).view(3, 6)
    symbols = {TRAINED_WORDS: (["<unknown>", "b", "c"], ["<unknown>", "c", "d"])}
    carried = copy_weights(new, weights, symbols)
    actual = weights_of(new)[TRAINED_WORDS]
    assert actual.tolist() == [*weights[TRAINED_WORDS][[0, 2]].tolist(), [0.0] * 6]
    assert carried.rows == {TRAINED_WORDS: 2}
