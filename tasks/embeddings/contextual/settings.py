"""Training settings of ELMo."""

from typing import Annotated, Literal

from pydantic import Field

from infra.form import Form
from models.language_model.config import LMTraining, PresetName


class ElmoSettings(Form):
    """Settings of method elmo.

    Windows of 20 words and 128 tracks are those of the original training (Peters et al., 2018).
    """

    preset: PresetName = Field(
        "filters-512",
        description="Size of the model, named after its character filters. filters-128: the "
        "smallest. filters-2048: the filters of the released 'small' model. With `start`, that "
        "model's sizes are kept.",
    )
    vocabulary: int = Field(
        50_000,
        ge=2,
        le=1_000_000,
        description="Number of words that the model learns to predict, the most frequent ones. "
        "It reads all words. With `start`, that model's words are kept.",
    )
    max_words: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Number of words after which training ends, taken evenly from the whole "
        "corpus. Empty: all words, in every epoch.",
    )
    batch_size: int = Field(
        128, ge=1, le=4096, description="Tracks of text that are read in parallel, by all workers."
    )
    window: int = Field(20, ge=2, le=500, description="Words of each track in a step of training.")
    learning_rate: float = Field(
        0.002,
        gt=0,
        le=1,
        description="Adam's learning rate; rises over 200 steps, then falls linearly to 0.",
    )
    dropout: float = Field(
        0.1, ge=0, lt=1, description="Dropout on word vectors and on the LSTMs' last output."
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="bfloat16 is faster on GPUs and on CPUs with AMX or AVX-512, and much slower "
        "on other CPUs.",
    )

    def training(self, epochs: int, seed: int) -> LMTraining:
        """The settings as the training loop takes them."""
        return LMTraining(
            epochs=epochs,
            max_words=self.max_words,
            tracks=self.batch_size,
            steps=self.window,
            learning_rate=self.learning_rate,
            dropout=self.dropout,
            precision=self.precision,
            seed=seed,
        )
