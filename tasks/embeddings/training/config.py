"""Training parameters of word vectors."""

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from infra.errors import UserError
from infra.form import Form, Seed
from models.language_model.config import LMTraining, PresetName

StaticMethod = Literal["cbow", "skipgram", "fasttext", "glove"]
Method = Literal[StaticMethod, "elmo"]
METHODS: tuple[str, ...] = get_args(StaticMethod)  # those that train one vector per word
DIMENSION = 100  # of vectors, unless it is chosen
# Settings of elmo that have no effect with a start model, whose sizes and words are kept.
KEPT_WITH_START = ("min_count", "elmo.preset", "elmo.vocabulary")
# For each setting that only some methods use, those methods.
USED_BY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("dimension", "window", "workers"), METHODS),
    "elmo": ("elmo",),
    "negatives": ("cbow", "skipgram", "fasttext"),
    **dict.fromkeys(("min_ngram", "max_ngram", "buckets"), ("fasttext",)),
    **dict.fromkeys(("x_max", "alpha", "memory_mb"), ("glove",)),
}


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


class EmbeddingParameters(Form):
    """A training method and its settings.

    The defaults are those of word2vec.c, of fastText except that small vocabularies get fewer than
    its 2,000,000 buckets, and of GloVe's paper (window 10, x_max 100) except its 50 to 100 epochs.
    The default of 15 epochs for GloVe is that of its demo script; glove.c's is 25.
    """

    method: Method = Field(
        "skipgram",
        description="cbow or skipgram (word2vec), fasttext (skip-gram with character n-grams), "
        "glove (co-occurrence counts), or elmo (a bidirectional language model, which gives each "
        "word a vector for its sentence).",
    )
    dimension: int = Field(DIMENSION, ge=1, le=2000, description="Embedding dimension.")
    window: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None,
        description="Context words on each side. Empty: 5 (10 for glove).",
    )
    min_count: int = Field(
        5, ge=1, description="Minimum number of occurrences for a word to get a vector."
    )
    negatives: int = Field(
        5,
        ge=1,
        le=100,
        description="Negative samples per context word. Unused by glove.",
    )
    min_ngram: int = Field(3, ge=1, le=20, description="Shortest character n-gram. fasttext only.")
    max_ngram: int = Field(6, ge=1, le=20, description="Longest character n-gram. fasttext only.")
    buckets: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Hash buckets (vectors) that the n-grams share. Each takes 4 bytes per "
        "dimension. Empty: those of `start`, or the power of two that is not below the number of "
        "distinct n-grams of the vocabulary, at most 2,000,000. fasttext only.",
    )
    epochs: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Number of epochs. Empty: 5 (15 for glove, 1 for elmo)."
    )
    x_max: float = Field(
        100.0,
        gt=0,
        description="Co-occurrence counts from x_max upwards get the full weight 1. glove only.",
    )
    alpha: float = Field(
        0.75,
        gt=0,
        le=1,
        description="Counts below x_max get the weight (count / x_max) ** alpha. glove only.",
    )
    memory_mb: int = Field(
        1024,
        ge=16,
        description="Memory in MB for co-occurrence counts; more are spilled to disk. glove only.",
    )
    workers: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Training threads. Empty: all cores. Only 1 makes training reproducible.",
    )
    seed: Seed = Field(0, description="Seed for the initial vectors and the training order.")

    elmo: ElmoSettings = Field(ElmoSettings(), description="Settings of method elmo.")

    @model_validator(mode="after")
    def _require_ngrams(self) -> Self:
        if self.min_ngram > self.max_ngram:
            raise ValueError(
                f"min_ngram ({self.min_ngram}) must not exceed max_ngram ({self.max_ngram})"
            )
        return self

    @model_validator(mode="after")
    def _reject_unused_settings(self) -> Self:
        for name in self.model_dump(exclude_defaults=True):
            if self.method not in USED_BY.get(name, (self.method,)):
                raise ValueError(
                    f"{name} has no effect with method {self.method!r}; omit it, or choose method "
                    f"{' or '.join(USED_BY[name])}"
                )
        return self

    @property
    def window_size(self) -> int:
        """Window size: neighbours on each side."""
        return self.window or (10 if self.method == "glove" else 5)

    @property
    def epoch_count(self) -> int:
        """Number of epochs."""
        return self.epochs or {"glove": 15, "elmo": 1}.get(self.method, 5)

    @property
    def threads(self) -> int:
        """Number of threads: `workers`, or by default one per core that this process may use."""
        return self.workers or cores()


def cores() -> int:
    """Number of CPU cores that this process may use, also within the limit of a container."""
    from joblib import cpu_count  # takes a while to load

    return int(cpu_count())


def reject_settings_of_start(parameters: EmbeddingParameters) -> None:
    """Check that only settings are changed that a warm start of a language model uses.

    Raises:
        UserError: a setting is changed for which the start model's value is kept.
    """
    changed = parameters.model_dump(exclude_defaults=True)
    changed |= {f"elmo.{name}": value for name, value in changed.get("elmo", {}).items()}
    for name in KEPT_WITH_START:
        if name in changed:
            raise UserError(
                f"{name} has no effect with start, because the sizes and words of the start model "
                "are kept. Omit one of the two."
            )
