"""Model and training configuration: immutable, JSON-serialisable, its combinations checked.

`flows.common.parameters` has the bounds of the fields that a form shows.
"""

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, Self

QueryToContext = Literal["starter", "max"]
UnknownWords = Literal["zero", "random", "trainable", "subword"]
Precision = Literal["float32", "bfloat16"]


def require(condition: bool, message: str) -> None:
    """Raise ValueError with this message unless the condition holds."""
    if not condition:
        raise ValueError(message)


@dataclass(frozen=True)
class CharacterConfig:
    """Character CNN over a word (Kim et al., 2016): `filters[i]` filters that span
    `kernel_widths[i]` characters each, followed by the maximum over positions. It reads the first
    `max_characters` characters of a word."""

    embedding_size: int = 64
    kernel_widths: tuple[int, ...] = (5,)
    filters: tuple[int, ...] = (100,)
    max_characters: int = 16

    def __post_init__(self) -> None:
        for name in ("kernel_widths", "filters"):  # JSON has lists instead of tuples
            object.__setattr__(self, name, tuple(getattr(self, name)))
            require(len(getattr(self, name)) > 0, f"characters.{name} must not be empty.")
        require(
            len(self.kernel_widths) == len(self.filters),
            f"characters.kernel_widths has length {len(self.kernel_widths)}, but "
            f"characters.filters has length {len(self.filters)}. Give one number of filters per "
            "kernel width.",
        )
        require(
            max(self.kernel_widths) <= self.max_characters,
            f"characters.kernel_widths (up to {max(self.kernel_widths)}) must not exceed "
            f"characters.max_characters ({self.max_characters}).",
        )

    @property
    def size(self) -> int:
        """Length of a word's vector."""
        return sum(self.filters)


@dataclass(frozen=True)
class ContextualConfig:
    """Contextual vectors in addition to word and character vectors: the mixed layers of a frozen
    language model (Peters et al., 2018, sections 3.2 and 3.3). "input" is that of the contextual
    encoder, behind the highway network; each place has a mix of its own. `dropout` is that of the
    vectors; a large `l2` penalty on the weights of the mix keeps it close to the layers' mean."""

    where: Literal["input", "output", "both"] = "input"
    dropout: float = 0.5
    l2: float = 0.001

    @property
    def places(self) -> tuple[str, ...]:
        """Where the vectors are added."""
        return ("input", "output") if self.where == "both" else (self.where,)


@dataclass(frozen=True)
class ModelConfig:
    """Architecture of a model, without its vocabulary and word vectors.

    hidden_size: of all layers (d in the BiDAF paper).
    characters: None for no character CNN; then the model must read word vectors.
    contextual: None for no contextual vectors.
    highway: two layers, "projected" to the hidden size (CS224n starter) or "concatenated" without
        projection (Seo et al., 2017); "none" as in document-qa.
    query_to_context: "max" is the softmax over the context of the similarity to the best-matching
        question word (Seo et al., 2017, §2 layer 4); "starter" is S1·S2ᵀ·C.
    self_attention: "additive", "dot" and "elementwise" are similarities of
        `models.modules.self_attention.SelfMatching`; "trilinear" replaces the modeling layer.
    output_reads: what the output layer reads besides the modeling layer; "attention" is G of the
        attention flow.
    end_pointer: "independent" as in the starter, "conditioned" as in the code of Seo et al.,
        "chained" as in document-qa.
    dropout: a rate below 1; 0 is no dropout.
    unknown_words: the vectors of words without a pretrained one. "random" draws once per word, and
        "trainable" starts at zero; "subword" composes them from the n-grams of fastText vectors,
        also those of words that never occurred in training.
    dropout_form: "outputs" are those of recurrent layers and embeddings, and also the inputs of the
        similarity (starter); "inputs" are those of the CNN, recurrent layers and output (Seo et
        al., 2017, §4); "variational" applies before the CNN, and before and after recurrent layers
        (document-qa).
    """

    hidden_size: int = 100
    word_vectors: bool = True
    characters: CharacterConfig | None = None
    contextual: ContextualConfig | None = None
    highway: Literal["projected", "concatenated", "none"] = "projected"
    recurrent: Literal["lstm", "gru"] = "lstm"
    query_to_context: QueryToContext = "starter"
    self_attention: Literal["none", "additive", "dot", "elementwise", "trilinear"] = "none"
    output_reads: Literal["attention", "self-attention"] = "attention"
    end_pointer: Literal["independent", "conditioned", "chained"] = "independent"
    dropout: float = 0.2
    unknown_words: UnknownWords = "zero"
    dropout_form: Literal["outputs", "inputs", "variational"] = "outputs"

    def __post_init__(self) -> None:
        require(
            self.word_vectors or self.characters is not None,
            "word_vectors is off and characters is empty. Set at least one of them.",
        )
        require(
            self.word_vectors or self.unknown_words == "zero",
            f"unknown_words {self.unknown_words!r} has no effect with word_vectors off. Set "
            "unknown_words to 'zero'.",
        )
        if self.output_reads == "self-attention":
            require(
                self.self_attention in ("additive", "dot", "elementwise"),
                "output_reads 'self-attention' does not support self_attention "
                f"{self.self_attention!r}. Set self_attention to 'additive', 'dot' or "
                "'elementwise'.",
            )
            require(
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

    `models.optim.learning_rate` computes the learning rate. Training counts the examples that it
    skips. It ends after `epochs`, or earlier by `patience`, `stop_at_f1` or `max_minutes`. Without
    `patience`, the last epoch's weights are the result. With `precision` "bfloat16", training steps
    round matrix products and logits to bfloat16; losses and predictions stay in float32.

    batch_size: questions per optimisation step, summed over all workers.
    decay_epochs: with schedule "linear", the learning rate is constant until this many epochs
        before the end; None decays it to 0 from the start.
    warmup_steps: steps of linear learning-rate warm-up, useful for large batches.
    rho, epsilon: of Adadelta; Adam ignores them.
    clip_norm: the maximum gradient norm; 0 never clips.
    ema_decay: of the exponential moving average (EMA) of the weights, which is evaluated and
        served; 0 is no averaging.
    max_context_tokens, max_question_tokens: longer ones are skipped in training, not in evaluation.
    window_stride: longer contexts are read in windows of `max_context_tokens` tokens that start
        this many tokens apart; None reads them whole.
    no_answer_share: share of examples without an answer in each epoch, drawn anew each time; the
        number of examples stays the same. None is as in the data.
    expected_no_answer: share of unanswerable questions expected in use, to which validation is
        weighted when the no-answer threshold is chosen. None is the share in the training data.
    patience: epochs without a better validation F1 after which training stops.
    deterministic: bitwise reproducible on GPUs too, but slower. CPUs always are.
    """

    epochs: int = 30
    batch_size: int = 64
    optimizer: Literal["adadelta", "adam"] = "adadelta"
    learning_rate: float = 0.5
    schedule: Literal["constant", "linear"] = "constant"
    decay_epochs: float | None = None
    warmup_steps: int = 0
    rho: float = 0.9
    epsilon: float = 1e-6
    clip_norm: float = 5.0
    ema_decay: float = 0.999
    max_answer_tokens: int = 15
    max_context_tokens: int = 400
    max_question_tokens: int = 50
    window_stride: int | None = None
    no_answer_share: float | None = None
    expected_no_answer: float | None = None
    seed: int = 0
    patience: int | None = None
    stop_at_f1: float | None = None
    max_minutes: float | None = None
    precision: Precision = "float32"
    deterministic: bool = False

    @property
    def chooses_epoch(self) -> bool:
        """Whether scores on validation choose the epoch that a training ends with."""
        return self.patience is not None or self.stop_at_f1 is not None

    def __post_init__(self) -> None:
        require(
            self.optimizer != "adam" or self.learning_rate <= 0.1,
            f"learning_rate {self.learning_rate:g} is too high for optimizer 'adam' (at most 0.1). "
            "Try 0.001.",
        )
        require(
            self.decay_epochs is None or self.schedule == "linear",
            f"decay_epochs has no effect with schedule {self.schedule!r}. Set schedule to "
            "'linear', or leave decay_epochs empty.",
        )
        require(
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

    def with_changes(self, **changes: Any) -> Self:
        """The same variant with some fields of its model or its training changed, by name.

        Raises:
            ValueError: the changed variant is invalid.
            TypeError: a field does not exist.
        """
        model_fields = {f.name for f in fields(ModelConfig)}
        model = {name: value for name, value in changes.items() if name in model_fields}
        training = {name: value for name, value in changes.items() if name not in model_fields}
        return replace(
            self,
            model=replace(self.model, **model),
            training=replace(self.training, **training),
        )

    def to_dict(self) -> dict[str, Any]:
        """Nested plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; raises TypeError for unknown fields."""
        model = dict(values["model"])
        if model["characters"] is not None:
            model["characters"] = CharacterConfig(**model["characters"])
        if model["contextual"] is not None:
            model["contextual"] = ContextualConfig(**model["contextual"])
        return cls(values["name"], ModelConfig(**model), TrainingConfig(**values["training"]))
