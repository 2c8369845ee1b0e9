"""Initial weights of a model: random from the seed, or a warm start from an earlier model."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file

from infra.errors import UserError
from models.bidaf import BiDAF
from models.configs.variant import VariantConfig
from models.warm_start import CHARACTER_EMBEDDING, TRAINED_WORDS, CarriedOver, carry_over
from tasks.embeddings.formats.matrix import load_word_vectors
from tasks.training.inputs import TrainingData


@dataclass(frozen=True)
class _Vocabulary:
    """Words with their vectors, and characters."""

    words: list[str]
    in_vectors: npt.NDArray[np.bool_]  # whether the set has the word, so that it is not OOV
    vectors: npt.NDArray[np.float32]
    characters: list[str]

    @classmethod
    def load(cls, folder: Path, vectors: npt.NDArray[np.float32]) -> Self:
        """Load the words and characters of a vocabulary folder or a model folder."""
        words, known = (_column(folder / "words.parquet", name) for name in ("word", "in_vectors"))
        characters = _column(folder / "characters.parquet", "character")
        return cls(words, np.array(known, dtype=bool), vectors, characters)

    @property
    def without_vector(self) -> list[str]:
        """Words whose vector is zero, except padding."""
        lacking = np.flatnonzero(~self.vectors.any(axis=1))
        return [self.words[row] for row in lacking if row > 0]


def new_model(variant: VariantConfig, data: TrainingData) -> tuple[BiDAF, CarriedOver | None]:
    """The variant's model for the data's vocabulary, and what a warm start carried over.

    Weights are drawn from the seed. With `data.start_from`, those of that earlier model replace
    them.

    Raises:
        UserError: that model has another architecture, or was trained with other word vectors.
    """
    policy, seed = variant.model.unknown_words, variant.training.seed
    vectors = load_word_vectors(data.vocabulary, data.vectors, policy, seed)
    now = _Vocabulary.load(data.vocabulary, vectors)
    torch.manual_seed(seed)
    model = BiDAF(variant.model, torch.from_numpy(vectors), len(now.characters))
    if data.start_from is None:
        return model, None
    return model, _carry_over(variant.name, model, now, data.start_from / "model")


def _carry_over(name: str, model: BiDAF, now: _Vocabulary, folder: Path) -> CarriedOver:
    vectors = load_file(folder / "vectors.safetensors")["word_vectors"].numpy()
    before = _Vocabulary.load(folder, vectors)
    _require_same_vectors(before, now)
    symbols = {
        CHARACTER_EMBEDDING: (before.characters, now.characters),
        TRAINED_WORDS: (before.without_vector, now.without_vector),
    }
    try:
        return carry_over(model, load_file(folder / "weights.safetensors"), symbols)
    except ValueError as error:
        raise UserError(
            f"{name} can't start from that model: {error}. Start from one of the same variant and "
            "hidden_size, or from none."
        ) from error


def _require_same_vectors(before: _Vocabulary, now: _Vocabulary) -> None:
    """Raises UserError if common words have different vectors: weights only fit the vectors that
    they were trained with."""
    rows = {word: row for row, word in enumerate(before.words)}
    common = [
        (rows[word], row)
        for row, word in enumerate(now.words)
        if word in rows and now.in_vectors[row] and before.in_vectors[rows[word]]
    ]
    old = before.vectors[[row for row, _ in common]]
    new = now.vectors[[row for _, row in common]]
    if old.shape == new.shape and np.allclose(old, new, atol=1e-6):
        return
    raise UserError(
        "The model to start from was trained over other word vectors: give the same ones as "
        "vectors.source."
    )


def told(carried: CarriedOver, variant: VariantConfig) -> str:
    """One line on what a warm start carried over."""
    by_symbol = [
        f"{carried.rows[name]} {symbols}"
        for name, symbols in ((CHARACTER_EMBEDDING, "characters"), (TRAINED_WORDS, "trained words"))
        if name in carried.rows
    ]
    known = f" and the vectors of {' and '.join(by_symbol)}" if by_symbol else ""
    fresh = f"; new: {', '.join(carried.fresh)}" if carried.fresh else ""
    return (
        f"{variant.name} starts with {len(carried.parameters)} parameters of the earlier model"
        f"{known}, {100 * carried.share:.1f} % of its weights{fresh}."
    )


def facts_of_start(carried: CarriedOver | None) -> dict[str, Any]:
    """The stage's facts about a warm start; empty without one."""
    return {} if carried is None else {"carried_over": asdict(carried)}


def _column(file: Path, name: str) -> list[Any]:
    column: list[Any] = pq.read_table(file, columns=[name])[name].to_pylist()
    return column
