"""Model and training configuration: immutable, validated, JSON-serialisable.

Each field carries its help and bounds, from which flows/ generates its forms.
"""

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, Self

from models.configs.fields import option, require, require_valid_fields

QueryToContext = Literal["starter", "max"]
UnknownWords = Literal["zero", "random", "trainable", "subword"]
Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class CharacterConfig:
    """Character CNN over a word (Kim et al., 2016): `filters[i]` filters that span
    `kernel_widths[i]` characters each, followed by the maximum over positions."""

    embedding_size: int = option(64, "Dimension of the character embeddings.", ge=1)
    kernel_widths: tuple[int, ...] = option(
        (5,), "Widths of the convolution kernels, in characters.", ge=1
    )
    filters: tuple[int, ...] = option((100,), "Number of filters for each kernel width.", ge=1)
    max_characters: int = option(
        16, "Characters read per word; the rest of a longer word is ignored.", ge=1
    )

    def __post_init__(self) -> None:
        for name in ("kernel_widths", "filters"):  # JSON has lists instead of tuples
            object.__setattr__(self, name, tuple(getattr(self, name)))
            require(len(getattr(self, name)) > 0, f"characters.{name} must not be empty.")
        require_valid_fields(self, "characters.")
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
    encoder, behind the highway network; each place has a mix of its own."""

    where: Literal["input", "output", "both"] = option(
        "input", "Place of the contextual vectors: the contextual encoder's input, output, or both."
    )
    dropout: float = option(
        0.5, "Dropout rate of the contextual vectors. 0: no dropout.", ge=0, le=0.99
    )
    l2: float = option(
        0.001,
        "L2 penalty on the weights of the mix. Large values keep it close to the layers' mean.",
        ge=0,
    )

    def __post_init__(self) -> None:
        require_valid_fields(self, "contextual.")

    @property
    def places(self) -> tuple[str, ...]:
        """Where the vectors are added."""
        return ("input", "output") if self.where == "both" else (self.where,)


@dataclass(frozen=True)
class ModelConfig:
    """Architecture of a model, without its vocabulary and word vectors.

    highway: two layers, "projected" to the hidden size (CS224n starter) or "concatenated" without
        projection (Seo et al., 2017); "none" as in document-qa.
    query_to_context: "max" is the softmax over the context of the similarity to the best-matching
        question word (Seo et al., 2017, §2 layer 4); "starter" is S1·S2ᵀ·C.
    self_attention: "additive", "dot" and "elementwise" are similarities of
        `models.modules.self_attention.SelfMatching`; "trilinear" replaces the modeling layer.
    output_reads: "attention" is G of the attention flow.
    end_pointer: "independent" as in the starter, "conditioned" as in the code of Seo et al.,
        "chained" as in document-qa.
    unknown_words: "random" draws once per word, and "trainable" starts at zero; "subword" also
        covers words that never occurred in training.
    dropout_form: "outputs" are those of recurrent layers and embeddings, and also the inputs of the
        similarity (starter); "inputs" are those of the CNN, recurrent layers and output (Seo et
        al., 2017, §4); "variational" applies before the CNN, and before and after recurrent layers
        (document-qa).
    """

    hidden_size: int = option(100, "Hidden size of all layers (d in the BiDAF paper).", ge=1)
    word_vectors: bool = option(True, "Whether the model reads word vectors. Off: characters only.")
    characters: CharacterConfig | None = option(None, "Character CNN over each word.")
    contextual: ContextualConfig | None = option(
        None, "Contextual vectors of a frozen language model (ELMo)."
    )
    highway: Literal["projected", "concatenated", "none"] = option(
        "projected", "Highway layers over the projected or concatenated embeddings, or none."
    )
    recurrent: Literal["lstm", "gru"] = option("lstm", "Cell type of the recurrent layers.")
    query_to_context: QueryToContext = option(
        "starter",
        "Query-to-context attention: 'max' as in the BiDAF paper, or 'starter', the matrix product "
        "of the CS224n starter code.",
    )
    self_attention: Literal["none", "additive", "dot", "elementwise", "trilinear"] = option(
        "none",
        "Similarity function of the context's self-attention ('trilinear': the residual block of "
        "document-qa), or none.",
    )
    output_reads: Literal["attention", "self-attention"] = option(
        "attention",
        "Input of the output layer besides the modeling layer: the attention flow, or "
        "self-attention.",
    )
    end_pointer: Literal["independent", "conditioned", "chained"] = option(
        "independent",
        "How the answer's end is predicted: independent of its start, conditioned on it, or by a "
        "layer chained to the start's.",
    )
    dropout: float = option(0.2, "Dropout rate. 0: no dropout.", ge=0, le=0.99)
    unknown_words: UnknownWords = option(
        "zero",
        "Vector of an OOV word (one without a pretrained vector): zero, random but fixed, "
        "trainable, or composed from subwords (needs fastText vectors).",
    )
    dropout_form: Literal["outputs", "inputs", "variational"] = option(
        "outputs",
        "Where dropout applies: to the outputs of layers, to their inputs, or variational, with "
        "one mask for all tokens of a sequence.",
    )

    def __post_init__(self) -> None:
        require_valid_fields(self)
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
    """

    epochs: int = option(30, "Maximum number of passes over the training data.", ge=1, le=1000)
    batch_size: int = option(64, "Questions per optimisation step, summed over all workers.", ge=1)
    optimizer: Literal["adadelta", "adam"] = option(
        "adadelta", "Optimiser. Set `learning_rate` to suit it."
    )
    learning_rate: float = option(
        0.5, "Peak learning rate: about 0.5 for Adadelta, 0.001 to 0.002 for Adam.", gt=0
    )
    schedule: Literal["constant", "linear"] = option(
        "constant", "Constant learning rate, or linear decay to 0 over `epochs`."
    )
    decay_epochs: float | None = option(
        None,
        "With `schedule` linear: the learning rate is constant until this many epochs before the "
        "end. Empty: it decays from the start.",
        gt=0,
    )
    warmup_steps: int = option(
        0,
        "Optimisation steps of linear learning-rate warm-up, useful for large batches. 0: none.",
        ge=0,
    )
    rho: float = option(0.9, "Decay of Adadelta's running averages. Adam ignores it.", ge=0, lt=1)
    epsilon: float = option(
        1e-6, "Adadelta's constant for numerical stability. Adam ignores it.", gt=0
    )
    clip_norm: float = option(
        5.0, "Maximum gradient norm; larger gradients are clipped. 0: never.", ge=0
    )
    ema_decay: float = option(
        0.999,
        "Decay of the exponential moving average (EMA) of the weights, which is evaluated and "
        "served. 0: no averaging.",
        ge=0,
        lt=1,
    )
    max_answer_tokens: int = option(15, "Longest answer to predict, in tokens.", ge=1)
    max_context_tokens: int = option(
        400,
        "Contexts with more tokens are skipped in training, but not in evaluation. With "
        "`window_stride`: window size in tokens.",
        ge=1,
    )
    max_question_tokens: int = option(
        50, "Questions with more tokens are skipped in training, but not in evaluation.", ge=1
    )
    window_stride: int | None = option(
        None,
        "Read longer contexts in sliding windows of `max_context_tokens` tokens that start this "
        "many tokens apart, in training and prediction. Half the window size works well.",
        ge=1,
    )
    no_answer_share: float | None = option(
        None,
        "Share of examples without an answer in each epoch, drawn anew each time; the number of "
        "examples stays the same. Empty: as in the data.",
        gt=0,
        lt=1,
    )
    expected_no_answer: float | None = option(
        None,
        "Share of unanswerable questions expected in use. The no-answer threshold is chosen on "
        "validation weighted to this share. Empty: the share in the training data.",
        gt=0,
        lt=1,
    )
    seed: int = option(0, "Seed for weight initialisation, batch order and dropout.", ge=0)
    patience: int | None = option(
        None,
        "Early stopping: stop after this many epochs without a better validation F1, and keep the "
        "best weights.",
        ge=1,
    )
    stop_at_f1: float | None = option(
        None, "Stop once validation F1 (0 to 100) reaches this value.", gt=0, le=100
    )
    max_minutes: float | None = option(
        None,
        "Stop after this many minutes of training and evaluation; a final evaluation follows.",
        gt=0,
    )
    precision: Precision = option(
        "float32",
        "Precision of matrix products; weights are always float32. bfloat16 is faster on CPUs with "
        "AMX or AVX-512, and much slower on other CPUs. GPUs keep LSTMs, most of the work, in "
        "float32.",
    )
    deterministic: bool = option(
        False, "Bitwise reproducible on GPUs too, but slower. CPUs always are."
    )

    def __post_init__(self) -> None:
        require_valid_fields(self)
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
        `characters` holds the fields of the character CNN to change; None removes the CNN.
        `contextual` holds those of the contextual vectors; variants without them ignore it.

        Raises:
            ValueError: the changed variant is invalid.
            TypeError: a field does not exist.
        """
        model_fields = {f.name for f in fields(ModelConfig)}
        model = {name: value for name, value in changes.items() if name in model_fields}
        if model.get("characters") is not None:
            model["characters"] = self._characters_with(model["characters"])
        if (contextual := model.pop("contextual", None)) and self.model.contextual is not None:
            model["contextual"] = replace(self.model.contextual, **contextual)
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
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; raises TypeError for unknown fields."""
        model = dict(values["model"])
        if model["characters"] is not None:
            model["characters"] = CharacterConfig(**model["characters"])
        if model["contextual"] is not None:
            model["contextual"] = ContextualConfig(**model["contextual"])
        return cls(values["name"], ModelConfig(**model), TrainingConfig(**values["training"]))
