"""Initial weights of a model: random from the seed, or a warm start from an earlier model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file

from infra.artifacts.manifest import sha256_of
from infra.errors import UserError
from models.bidaf import BiDAF
from models.configs.variant import VariantConfig
from models.warm_start import CHARACTER_EMBEDDING, TRAINED_WORDS, WarmStartResult, copy_weights
from tasks.embeddings.contextual.frozen_bilm import WEIGHTS, has_bilm, layers_shape
from tasks.embeddings.formats.store import composed_vectors, load_word_vectors
from tasks.embeddings.formats.word_vectors import FLOAT16_ERROR
from tasks.evaluation.evaluate import load_split
from tasks.inference.model_folder import load_vectors
from tasks.inference.trained_contexts import new_to_models, trained_contexts
from tasks.text.encoded import oov_words
from tasks.training.inputs import TrainingData


@dataclass(frozen=True)
class _Vocabulary:
    words: list[str]
    in_vectors: npt.NDArray[np.bool_]  # whether the set has the word, so that it is not OOV
    vectors: npt.NDArray[np.float32]
    characters: list[str]

    @classmethod
    def load(cls, folder: Path, vectors: npt.NDArray[np.float32]) -> Self:
        """Load the words and characters of a vocabulary folder or a model folder."""
        words: Any = pq.read_table(folder / "words.parquet", columns=["word", "in_vectors"])
        characters: Any = pq.read_table(folder / "characters.parquet", columns=["character"])
        known = words["in_vectors"].to_numpy()
        return cls(words["word"].to_pylist(), known, vectors, characters["character"].to_pylist())

    @classmethod
    def of_model(cls, folder: Path) -> Self:
        """Load the vocabulary of a model folder, with its vectors."""
        return cls.load(folder, load_vectors(folder).numpy())

    @property
    def without_vector(self) -> list[str]:
        """Words whose vector is zero, except padding."""
        return [self.words[row] for row in np.flatnonzero(~self.vectors.any(axis=1)) if row > 0]


def new_model(variant: VariantConfig, data: TrainingData) -> tuple[BiDAF, WarmStartResult | None]:
    """The variant's model for the data's vocabulary, and what a warm start carried over.

    If the variant composes OOV words from n-grams, the model also has the vectors of those of the
    splits, as a served model composes those of its texts (see `load_types`). Weights are drawn from
    the seed. With `data.start_from`, those of that earlier model replace them.

    Raises:
        UserError: that model has another architecture, or was trained with other word vectors or
            another language model.
    """
    known = vectors = word_vectors_of(variant, data)
    torch.manual_seed(variant.training.seed)
    characters = pq.read_metadata(data.vocabulary / "characters.parquet").num_rows
    shape = (0, 0) if data.bilm is None else layers_shape(data.bilm)
    if variant.model.unknown_words == "subword":
        composed = composed_vectors(data.vectors, oov_words(data.vocabulary))
        vectors = np.concatenate([known, composed])
    model = BiDAF(variant.model, torch.from_numpy(vectors), characters, shape)
    if data.start_from is None:
        return model, None
    if data.bilm is not None:
        _require_same_bilm(data.start_from / "model", data.bilm)
    vocabulary = _Vocabulary.load(data.vocabulary, known)
    return model, _copy_weights(variant.name, model, vocabulary, data.start_from / "model")


def word_vectors_of(variant: VariantConfig, data: TrainingData) -> npt.NDArray[np.float32]:
    """One vector per word of the data's vocabulary, (V, d); see `load_word_vectors`.

    A warm start keeps the random vectors of the earlier model, which its weights have learned.
    """
    policy, seed = variant.model.unknown_words, variant.training.seed
    vectors = load_word_vectors(data.vocabulary, data.vectors, policy, seed)
    if policy == "random" and data.start_from is not None:
        new = _Vocabulary.load(data.vocabulary, vectors)
        _keep_random_vectors(_Vocabulary.of_model(data.start_from / "model"), new)
    return vectors


def _keep_random_vectors(old: _Vocabulary, new: _Vocabulary) -> None:
    """Give OOV words the vectors that they have in the earlier model, if any."""
    if old.vectors.shape[1] != new.vectors.shape[1]:
        return  # other vectors, which are refused with an explanation
    rows = {
        word: row
        for row, word in enumerate(old.words)
        if not old.in_vectors[row] and old.vectors[row].any()
    }
    for row, word in enumerate(new.words):
        if word in rows and not new.in_vectors[row]:
            new.vectors[row] = old.vectors[rows[word]]


def _copy_weights(name: str, model: BiDAF, new: _Vocabulary, folder: Path) -> WarmStartResult:
    old = _Vocabulary.of_model(folder)
    if model.config.word_vectors:
        _require_same_vectors(old, new)
    symbols = {
        CHARACTER_EMBEDDING: (old.characters, new.characters),
        TRAINED_WORDS: (old.without_vector, new.without_vector),
    }
    try:
        return copy_weights(model, load_file(folder / "weights.safetensors"), symbols)
    except ValueError as error:
        raise UserError(
            f"{name} can't be initialized from the model in start_from: {error}. Choose a model "
            "of the same variant and hidden_size, or omit start_from to train from scratch."
        ) from error


def _require_same_vectors(old: _Vocabulary, new: _Vocabulary) -> None:
    """Raises UserError if common words have different vectors: weights only fit the vectors that
    they were trained with."""
    rows = {word: row for row, word in enumerate(old.words)}
    common = [
        (rows[word], row)
        for row, word in enumerate(new.words)
        if word in rows and new.in_vectors[row] and old.in_vectors[rows[word]]
    ]
    old_vectors = old.vectors[[row for row, _ in common]]
    new_vectors = new.vectors[[row for _, row in common]]
    if old_vectors.shape == new_vectors.shape and np.allclose(
        old_vectors,
        new_vectors,
        rtol=FLOAT16_ERROR,  # only one of them may have been rounded
        atol=1e-6,
    ):
        return
    raise UserError(
        "The model in start_from was trained with other word vectors. Set vectors.source to the "
        "ones it was trained with."
    )


def _require_same_bilm(old: Path, new: Path) -> None:
    """Raises UserError if a model has another language model, for the same reason."""
    if has_bilm(old) and sha256_of(old / WEIGHTS) != sha256_of(new / WEIGHTS):
        raise UserError(
            "The model in start_from was trained with another language model. Set "
            "vectors.contextual to the one it was trained with."
        )


def warm_start_summary(carried: WarmStartResult, variant: VariantConfig) -> str:
    """One line on what a warm start carried over."""
    by_symbol = [
        f"{carried.rows[name]} {symbols}"
        for name, symbols in ((CHARACTER_EMBEDDING, "characters"), (TRAINED_WORDS, "trained words"))
        if name in carried.rows
    ]
    known = f" and the vectors of {' and '.join(by_symbol)}" if by_symbol else ""
    fresh = f"; randomly initialized: {', '.join(carried.fresh)}" if carried.fresh else ""
    return (
        f"{variant.name}: warm start with {len(carried.parameters)} parameter tensors of the "
        f"earlier model{known}, {100 * carried.share:.1f} % of its weights{fresh}."
    )


def leakage_warning(name: str, data: TrainingData) -> str | None:
    """One line if the model of a warm start was trained on contexts of validation or dev; None if
    not, and without a warm start."""
    if data.start_from is None:
        return None
    trained, counts = trained_contexts(data.start_from / "model"), []
    for split, folders in data.splits.items():
        if split == "train":
            continue
        new = new_to_models(load_split(folders.ingested), [trained])
        if not new.all():
            counts.append(f"{(~new).sum():,} of {len(new):,} {split} questions")
    if not counts:
        return None
    return (
        f"{name}: {' and '.join(counts)} are about contexts that the model in start_from was "
        "trained on, so their scores are too high. Split the data as for that model (data.seed, "
        "data.validation_share, data.dev_share), or omit start_from to train from scratch."
    )
