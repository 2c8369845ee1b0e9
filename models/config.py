"""What a model is and how it is trained: immutable, validated, JSON-able."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

QueryToContext = Literal["starter", "max"]
OptimizerName = Literal["adadelta", "adam"]


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise ValueError(sentence)


@dataclass(frozen=True)
class CharacterConfig:
    """Character CNN over a word (Kim, 2015): one kernel width, max over positions."""

    embedding_size: int = 64
    filters: int = 100
    kernel_width: int = 5
    max_characters: int = 16

    def __post_init__(self) -> None:
        for name in ("embedding_size", "filters", "kernel_width", "max_characters"):
            _require(getattr(self, name) >= 1, f"characters.{name} must be at least 1.")
        _require(
            self.kernel_width <= self.max_characters,
            f"characters.kernel_width ({self.kernel_width}) must not exceed "
            f"characters.max_characters ({self.max_characters}).",
        )


@dataclass(frozen=True)
class ModelConfig:
    """The architecture, apart from the vocabulary and the word vectors it is built over.

    `query_to_context`: "max" is the softmax over the context of the best-matching question
    word (Seo et al., 2017, eq. 3); "starter" is S1·S2ᵀ·C of the CS224n starter code.
    """

    hidden_size: int = 100
    characters: CharacterConfig | None = None
    query_to_context: QueryToContext = "starter"
    dropout: float = 0.2

    def __post_init__(self) -> None:
        _require(self.hidden_size >= 1, "hidden_size must be at least 1.")
        _require(0.0 <= self.dropout <= 0.99, "dropout must lie in [0, 0.99].")
        _require(
            self.query_to_context in ("starter", "max"),
            f"query_to_context must be 'starter' or 'max', not {self.query_to_context!r}.",
        )


@dataclass(frozen=True)
class TrainingConfig:
    """How the weights are found. `rho` and `epsilon` are Adadelta's; Adam ignores `rho`.

    Training examples whose context or question is longer than the two token limits are left
    out (and counted); evaluation is on every question whatever its length.
    """

    epochs: int = 30
    batch_size: int = 64
    optimizer: OptimizerName = "adadelta"
    learning_rate: float = 0.5
    rho: float = 0.9
    epsilon: float = 1e-6
    clip_norm: float = 5.0
    ema_decay: float = 0.999
    max_answer_tokens: int = 15
    max_context_tokens: int = 400
    max_question_tokens: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "max_answer_tokens"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1.")
        for name in ("max_context_tokens", "max_question_tokens"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1.")
        for name in ("learning_rate", "epsilon", "clip_norm"):
            _require(getattr(self, name) > 0, f"{name} must be above 0.")
        _require(self.seed >= 0, "seed must be at least 0.")
        for name in ("rho", "ema_decay"):
            _require(0.0 <= getattr(self, name) < 1.0, f"{name} must lie in [0, 1).")
        _require(
            self.optimizer in ("adadelta", "adam"),
            f"optimizer must be 'adadelta' or 'adam', not {self.optimizer!r}.",
        )


@dataclass(frozen=True)
class VariantConfig:
    """A variant of the family: its name, its architecture and its training."""

    name: str
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def with_changes(self, **changes: Any) -> VariantConfig:
        """The same variant with some fields of its model or its training changed, by name."""
        of_model = {f.name for f in fields(ModelConfig)}
        model = {name: value for name, value in changes.items() if name in of_model}
        training = {name: value for name, value in changes.items() if name not in of_model}
        return replace(
            self,
            model=replace(self.model, **model),
            training=replace(self.training, **training),
        )

    def to_dict(self) -> dict[str, Any]:
        """Nested plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> VariantConfig:
        """The inverse of `to_dict`; unknown fields are a TypeError."""
        model = dict(values["model"])
        if model["characters"] is not None:
            model["characters"] = CharacterConfig(**model["characters"])
        return cls(values["name"], ModelConfig(**model), TrainingConfig(**values["training"]))
