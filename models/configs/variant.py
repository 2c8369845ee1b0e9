"""Model and training configuration: immutable, validated, JSON-serialisable."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, get_args

QueryToContext = Literal["starter", "max"]
UnknownWords = Literal["zero", "random", "trainable", "subword"]
Highway = Literal["projected", "concatenated", "none"]
Recurrent = Literal["lstm", "gru"]
SelfAttention = Literal["none", "additive", "dot", "elementwise", "trilinear"]
OutputReads = Literal["attention", "self-attention"]
EndPointer = Literal["independent", "conditioned", "chained"]
DropoutForm = Literal["outputs", "inputs", "variational"]
OptimizerName = Literal["adadelta", "adam"]
Schedule = Literal["constant", "linear"]
Precision = Literal["float32", "bfloat16"]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _require_choices(config: Any, choices: dict[str, Any]) -> None:
    """Require that each named field holds one of the values of its Literal."""
    for name, literal in choices.items():
        value, allowed = getattr(config, name), get_args(literal)
        choices_text = f"{', '.join(map(repr, allowed[:-1]))} or {allowed[-1]!r}"
        _require(value in allowed, f"{name} must be {choices_text}, not {value!r}.")


@dataclass(frozen=True)
class CharacterConfig:
    """Character CNN over a word (Kim et al., 2016): `filters[i]` filters that span
    `kernel_widths[i]` characters each, followed by the maximum over positions."""

    embedding_size: int = 64
    kernel_widths: tuple[int, ...] = (5,)
    filters: tuple[int, ...] = (100,)
    max_characters: int = 16

    def __post_init__(self) -> None:
        for name in ("kernel_widths", "filters"):  # JSON has lists instead of tuples
            object.__setattr__(self, name, tuple(getattr(self, name)))
            sizes = getattr(self, name)
            _require(
                len(sizes) > 0 and min(sizes) >= 1,
                f"characters.{name} must be a non-empty list of integers of at least 1.",
            )
        for name in ("embedding_size", "max_characters"):
            _require(getattr(self, name) >= 1, f"characters.{name} must be at least 1.")
        _require(
            len(self.kernel_widths) == len(self.filters),
            f"characters.kernel_widths has length {len(self.kernel_widths)}, but "
            f"characters.filters has length {len(self.filters)}. Give one number of filters per "
            "kernel width.",
        )
        _require(
            max(self.kernel_widths) <= self.max_characters,
            f"characters.kernel_widths (up to {max(self.kernel_widths)}) must not exceed "
            f"characters.max_characters ({self.max_characters}).",
        )

    @property
    def size(self) -> int:
        """Length of a word's vector."""
        return sum(self.filters)


@dataclass(frozen=True)
class ModelConfig:
    """Architecture of a model, without its vocabulary and word vectors.

    word_vectors: whether the model uses word vectors; without them, characters alone represent a
        word.
    unknown_words: the vector of a word without a pretrained one: "zero"; "random", drawn once per
        word and frozen; "trainable", initialised to zero; or "subword", composed from the subword
        vectors of a fastText set, which also covers words that never occurred in training.
    highway: two highway layers over the embeddings "projected" to the hidden size (CS224n starter),
        over their "concatenated" form without projection (Seo et al., 2017), or "none"
        (document-qa).
    query_to_context: "max" is the softmax over the context of the similarity to the best-matching
        question word (Seo et al., 2017, §2 layer 4); "starter" is S1·S2ᵀ·C of the CS224n starter
        code.
    self_attention: attention of the context over itself. "additive", "dot" and "elementwise" are
        similarities of `models.modules.self_attention.SelfMatching`; "trilinear" is document-qa's
        residual block, which replaces the modeling layer.
    output_reads: what the output layer reads besides the modeling layer: G of the attention flow
        ("attention"), or the result of self-attention ("self-attention").
    end_pointer: the end is predicted "independent" of the start (starter), "conditioned" on it (the
        code of Seo et al.), or by a layer "chained" to the start's (document-qa).
    dropout_form: where dropout applies: after recurrent layers and embeddings, and to the inputs of
        the similarity ("outputs", starter); before the CNN, recurrent layers and output ("inputs",
        Seo et al., 2017, §4); or before the CNN, and before and after recurrent layers with one
        mask for all tokens of a sequence ("variational", document-qa).
    """

    hidden_size: int = 100
    word_vectors: bool = True
    unknown_words: UnknownWords = "zero"
    characters: CharacterConfig | None = None
    highway: Highway = "projected"
    recurrent: Recurrent = "lstm"
    query_to_context: QueryToContext = "starter"
    self_attention: SelfAttention = "none"
    output_reads: OutputReads = "attention"
    end_pointer: EndPointer = "independent"
    dropout: float = 0.2
    dropout_form: DropoutForm = "outputs"

    def __post_init__(self) -> None:
        _require(self.hidden_size >= 1, "hidden_size must be at least 1.")
        _require(0.0 <= self.dropout <= 0.99, "dropout must lie in [0, 0.99].")
        _require_choices(
            self,
            {
                "unknown_words": UnknownWords,
                "highway": Highway,
                "recurrent": Recurrent,
                "query_to_context": QueryToContext,
                "self_attention": SelfAttention,
                "output_reads": OutputReads,
                "end_pointer": EndPointer,
                "dropout_form": DropoutForm,
            },
        )
        self._refuse_impossible_combinations()

    def _refuse_impossible_combinations(self) -> None:
        _require(
            self.word_vectors or self.characters is not None,
            "word_vectors is off and characters is empty. Set at least one of them.",
        )
        _require(
            self.word_vectors or self.unknown_words == "zero",
            f"unknown_words {self.unknown_words!r} has no effect with word_vectors off. Set "
            "unknown_words to 'zero'.",
        )
        if self.output_reads == "self-attention":
            _require(
                self.self_attention in ("additive", "dot", "elementwise"),
                "output_reads 'self-attention' does not support self_attention "
                f"{self.self_attention!r}. Set self_attention to 'additive', 'dot' or "
                "'elementwise'.",
            )
            _require(
                self.end_pointer != "chained",
                "output_reads 'self-attention' does not support end_pointer 'chained', which reads "
                "only the modeling layer.",
            )


class Window(NamedTuple):
    """Sliding window over a long context: its size in tokens, and the distance in tokens between
    the starts of consecutive windows."""

    tokens: int
    stride: int


@dataclass(frozen=True)
class TrainingConfig:
    """Training hyperparameters.

    `rho` and `epsilon` belong to Adadelta; Adam ignores them. A `clip_norm` of 0 turns gradient
    clipping off. `models.optim.learning_rate` computes the learning rate: it rises over
    `warmup_steps`, as large batches need, and then stays the same ("constant") or falls to 0 at the
    end of the last epoch ("linear").

    Training leaves out (and counts) examples whose context or question exceeds its token limit;
    evaluation covers every question, whatever its length. With a `window_stride`, training and
    prediction read longer contexts in windows of `max_context_tokens` tokens whose starts are
    `window_stride` tokens apart.

    Training ends after `epochs`, or earlier: when validation F1 has not risen for `patience`
    epochs, when it has reached `stop_at_f1` (0 to 100), or when training and evaluations have used
    up `max_minutes`; the last evaluation comes on top. With `patience`, the best epoch's weights
    are the result, otherwise the last epoch's.

    `precision`: "bfloat16" computes products in bfloat16; weights and sums stay in float32.
    `deterministic`: GPUs give bitwise identical results in each run, but more slowly; CPUs always
    do. A checkpoint is written after each epoch, and every `checkpoint_minutes` or
    `checkpoint_steps`.
    """

    epochs: int = 30
    batch_size: int = 64
    optimizer: OptimizerName = "adadelta"
    learning_rate: float = 0.5
    schedule: Schedule = "constant"
    warmup_steps: int = 0
    rho: float = 0.9
    epsilon: float = 1e-6
    clip_norm: float = 5.0
    ema_decay: float = 0.999
    max_answer_tokens: int = 15
    max_context_tokens: int = 400
    max_question_tokens: int = 50
    window_stride: int | None = None
    seed: int = 0
    patience: int | None = None
    stop_at_f1: float | None = None
    max_minutes: float | None = None
    precision: Precision = "float32"
    deterministic: bool = False
    checkpoint_minutes: float | None = 10.0
    checkpoint_steps: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "max_answer_tokens"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1.")
        for name in ("max_context_tokens", "max_question_tokens"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1.")
        for name in ("learning_rate", "epsilon"):
            number = getattr(self, name)
            _require(0 < number < math.inf, f"{name} must be a finite number above 0.")
        _require(0 <= self.clip_norm < math.inf, "clip_norm must be a finite number of at least 0.")
        _require(
            self.optimizer != "adam" or self.learning_rate <= 0.1,
            f"learning_rate {self.learning_rate:g} is too high for optimizer 'adam' (at most 0.1). "
            "Try 0.001.",
        )
        for name in ("seed", "warmup_steps"):
            _require(getattr(self, name) >= 0, f"{name} must be at least 0.")
        for name in ("rho", "ema_decay"):
            _require(0.0 <= getattr(self, name) < 1.0, f"{name} must lie in [0, 1).")
        _require_choices(
            self, {"optimizer": OptimizerName, "schedule": Schedule, "precision": Precision}
        )
        for name in ("patience", "checkpoint_steps", "window_stride"):
            value = getattr(self, name)
            _require(value is None or value >= 1, f"{name} must be at least 1.")
        for name in ("max_minutes", "stop_at_f1", "checkpoint_minutes"):
            value = getattr(self, name)
            _require(value is None or value > 0, f"{name} must be above 0.")
        _require((self.stop_at_f1 or 0) <= 100, "stop_at_f1 must be at most 100 (percent).")
        _require(
            self.window_stride is None or self.window_stride < self.max_context_tokens,
            f"window_stride ({self.window_stride}) must be less than max_context_tokens "
            f"({self.max_context_tokens}), so that consecutive windows overlap.",
        )

    @property
    def window(self) -> Window | None:
        """The windows in which longer contexts are read; None without a `window_stride`."""
        if self.window_stride is None:
            return None
        return Window(self.max_context_tokens, self.window_stride)


@dataclass(frozen=True)
class VariantConfig:
    """A variant of the model family: its name, architecture and training hyperparameters."""

    name: str
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def with_changes(self, **changes: Any) -> VariantConfig:
        """The same variant with some fields of its model or its training changed, by name.
        `characters` holds the fields of the character CNN to change; None removes the CNN.

        Raises:
            ValueError: the changed variant is invalid.
            TypeError: a field does not exist.
        """
        model_fields = {f.name for f in fields(ModelConfig)}
        model = {name: value for name, value in changes.items() if name in model_fields}
        if model.get("characters") is not None:
            model["characters"] = self._characters_with(model["characters"])
        training = {name: value for name, value in changes.items() if name not in model_fields}
        return replace(
            self,
            model=replace(self.model, **model),
            training=replace(self.training, **training),
        )

    def _characters_with(self, changes: dict[str, Any]) -> CharacterConfig:
        characters = self.model.characters
        if characters is None:
            raise ValueError(
                f"characters.{next(iter(changes), '')} can't be set: the variant {self.name} has "
                "no character CNN. Remove the setting, or the variant."
            )
        return replace(characters, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Nested plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> VariantConfig:
        """The inverse of `to_dict`; raises TypeError for unknown fields."""
        model = dict(values["model"])
        if model["characters"] is not None:
            model["characters"] = CharacterConfig(**model["characters"])
        return cls(values["name"], ModelConfig(**model), TrainingConfig(**values["training"]))
