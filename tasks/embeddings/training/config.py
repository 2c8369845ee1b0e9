"""Training parameters of word vectors."""

import os
from typing import Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

Method = Literal["cbow", "skipgram", "fasttext", "glove"]
METHODS: tuple[str, ...] = get_args(Method)
READ_BY: dict[str, tuple[Method, ...]] = {
    "negatives": ("cbow", "skipgram", "fasttext"),
    **dict.fromkeys(("min_ngram", "max_ngram", "buckets"), ("fasttext",)),
    **dict.fromkeys(("x_max", "alpha", "memory_mb"), ("glove",)),
}
"""For each setting that only some methods use, those methods."""


class EmbeddingSettings(BaseModel):
    """Settings of the training methods.

    The defaults are those of word2vec.c, of fastText except its 2,000,000 buckets, and of GloVe's
    paper (window 10, x_max 100) except its 50 to 100 epochs. The default of 15 epochs for GloVe is
    that of its demo script; glove.c's is 25.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dimension: int = Field(100, ge=1, le=2000, description="Numbers in a word's vector.")
    window: int | None = Field(
        None, ge=1, le=100, description="Neighbours on each side; by default 5, for glove 10."
    )
    min_count: int = Field(5, ge=1, description="A word gets a vector if it occurs so often.")
    negatives: int = Field(
        5, ge=1, le=100, description="Random words that each neighbour is told from; not for glove."
    )
    min_ngram: int = Field(3, ge=1, le=20, description="Fewest letters of fasttext's n-grams.")
    max_ngram: int = Field(6, ge=1, le=20, description="Most letters of fasttext's n-grams.")
    buckets: int = Field(
        500_000,
        ge=1,
        description="Vectors that fasttext's n-grams share; each takes 4 bytes a dimension.",
    )
    epochs: int | None = Field(
        None, ge=1, le=1000, description="Passes; by default 5 over the text, 15 over the counts."
    )
    x_max: float = Field(
        100.0, gt=0, description="Counts from here on weigh alike; for glove (its paper's x_max)."
    )
    alpha: float = Field(
        0.75, gt=0, le=1, description="Power by which smaller counts weigh less; for glove."
    )
    memory_mb: int = Field(
        1024, ge=16, description="Memory for glove's counts; what is more goes to disk."
    )
    workers: int | None = Field(
        None, ge=1, description="Threads; all cores by default. One makes training repeatable."
    )
    seed: int = Field(
        0, ge=0, lt=2**32, description="Draws first vectors, and the order of training."
    )

    @model_validator(mode="after")
    def _require_ngrams(self) -> Self:
        if self.min_ngram > self.max_ngram:
            raise ValueError(
                f"min_ngram ({self.min_ngram}) must not exceed max_ngram ({self.max_ngram})"
            )
        return self


def require_effect(method: str, settings: EmbeddingSettings) -> None:
    """Raises ValueError if a setting that the method does not use differs from its default.

    Forms send every field, so only a value other than the default shows that the user set it.
    """
    for name, methods in READ_BY.items():
        default = EmbeddingSettings.model_fields[name].default
        if method not in methods and getattr(settings, name) != default:
            raise ValueError(
                f"{name} has no effect where the method is {method}: leave it out, or choose "
                f"{' or '.join(methods)}"
            )


class EmbeddingParameters(EmbeddingSettings):
    """A training method and its settings."""

    method: Method = Field(
        "skipgram",
        description="cbow and skipgram (word2vec), fasttext (skip-gram with the letters of a "
        "word), or glove (counts of neighbours).",
    )

    @model_validator(mode="after")
    def _settings_have_an_effect(self) -> Self:
        require_effect(self.method, self)
        return self

    @property
    def context(self) -> int:
        """Window size: neighbours on each side."""
        return self.window or (10 if self.method == "glove" else 5)

    @property
    def passes(self) -> int:
        """Number of epochs."""
        return self.epochs or (15 if self.method == "glove" else 5)

    @property
    def threads(self) -> int:
        """Number of threads: `workers`, or by default one per core that this process may use."""
        return self.workers or cores()


def cores() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
