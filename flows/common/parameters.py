"""The parameters of a flow, for Prefect's form and for the command line."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from infra.errors import UserError
from models.configs.presets import preset
from models.configs.variant import (
    DropoutForm,
    EndPointer,
    Highway,
    OptimizerName,
    OutputReads,
    Precision,
    QueryToContext,
    Recurrent,
    Schedule,
    SelfAttention,
    UnknownWords,
    VariantConfig,
)
from tasks.data.splits import Overlap
from tasks.datasets.catalog import DATASETS
from tasks.embeddings.formats.source import NO_VECTORS, PACKAGED, check_source
from tasks.embeddings.training.config import METHODS, EmbeddingSettings, require_effect

VariantName = Literal[
    "baseline",
    "char",
    "char-selfattn",
    "char-selfattn-dot",
    "char-selfattn-v1",
    "seo2016",
    "char-only",
    "kim-char",
    "docqa",
]
Positive = Annotated[int, Field(ge=1)]
Variants = Annotated[
    list[VariantName], Field(min_length=1, description="The models to train, in this order.")
]


def check_choice(spec: str) -> str:
    """Accept a set of vectors, or the method by which to train one first."""
    return spec if spec in METHODS else check_source(spec)


def check_start(spec: str) -> str:
    """Accept a set of vectors to start from; `none` is not one."""
    if spec == NO_VECTORS:
        raise ValueError("there is nothing to go on from in none: leave start out to begin anew")
    return check_source(spec)


VectorStart = Annotated[str, AfterValidator(check_start)]


class Form(BaseModel):
    """A group of fields that rejects unknown fields and NaN or infinite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class MixedIn(Form):
    """Questions to train on in addition to the dataset's own."""

    files: list[str] = Field(
        min_length=1, description="Files, folders, globs, zips, addresses or known datasets."
    )
    weight: float = Field(
        1.0,
        gt=0,
        le=100,
        description="How often an epoch sees each of their questions; the dataset's own are seen "
        "once. At 0.5 every second one is left out, drawn by the seed.",
    )


class DataParameters(Form):
    """Which questions to train on, and which to evaluate on."""

    dataset: str = Field(
        "tiny",
        min_length=1,
        description=f"A known dataset ({', '.join(DATASETS)}), or a SQuAD-format file, folder, "
        "glob or zip.",
    )
    train_files: list[str] = Field(
        [],
        description="Files to train on, folders, globs, zips, addresses (s3://…) or known "
        "datasets; `dataset` is then only a name.",
    )
    dev_files: list[str] = Field(
        [], description="The same to score on; without them articles are held out of train."
    )
    mix: list[MixedIn] = Field(
        [],
        description="Further sources to train on, each with a weight; none of their questions is "
        "held out for validation.",
    )
    dev_share: float = Field(
        0.1, gt=0, lt=1, description="Share of the articles held out where there is no dev file."
    )
    validation_share: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="Share of the training articles held out for choices such as when to stop: a "
        "tenth if left empty, and none of tiny.",
    )
    overlap: Overlap | None = Field(
        None,
        description="What is done with training contexts that also stand in the set to score on: "
        "refuse the data, as it is if left empty, or leave these contexts out of training, as it "
        "is for known datasets.",
    )
    negatives: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the answerable questions of train and validation that are asked once "
        "more, about another paragraph of their article that does not hold the answer: "
        "unanswerable questions for data that have too few.",
    )
    seed: int = Field(
        7,
        ge=0,
        description="Draws the held-out articles and the negatives, and generates the tiny "
        "dataset.",
    )
    repair: bool = Field(
        False,
        description="Take an answer that does not stand at its answer_start from the nearest place "
        "where it does; each such repair is listed in the ledger.",
    )
    max_rejected: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Share of the questions that may be unfit for training before a run stops.",
    )

    @model_validator(mode="after")
    def _name_is_a_name(self) -> Self:
        # The name becomes part of paths, and of the names of experiments and models.
        if self.train_files and not re.fullmatch(r"\w[\w. -]*", self.dataset):
            raise ValueError(
                f"with files to train on, dataset is only a name, made of letters, digits, points,"
                f" hyphens and spaces; {self.dataset!r} is none"
            )
        return self


class CharacterParameters(Form):
    """Changes to the character CNN of every variant; every variant must have one."""

    embedding_size: int | None = Field(
        None, ge=0, description="Numbers that stand for a character; at 0 none is read."
    )
    kernel_widths: list[Positive] | None = Field(
        None, min_length=1, description="Characters that the filters look at together."
    )
    filters: list[Positive] | None = Field(
        None, min_length=1, description="Number of filters of each width."
    )
    max_characters: int | None = Field(
        None, ge=1, description="So many of a word's characters are read."
    )

    @model_validator(mode="after")
    def _off_alone(self) -> Self:
        others = self.model_dump(exclude_none=True, exclude={"embedding_size"})
        if self.embedding_size == 0 and others:
            raise ValueError(
                f"embedding_size is 0, so no character is read and {next(iter(others))} has no "
                "effect: leave one of the two out"
            )
        return self


OFF_AT_0 = ("window_stride", "checkpoint_minutes")
"""Fields that 0 turns off, though a preset or a dataset sets them. An empty field can't do this:
Prefect's form submits every field, and sends null for those left untouched."""


class TrainingParameters(Form):
    """Changes to every variant's preset; an empty field keeps the preset's value."""

    epochs: int | None = Field(None, ge=1, le=1000, description="Passes over the training data.")
    batch_size: int | None = Field(None, ge=1, description="Questions per optimisation step.")
    optimizer: OptimizerName | None = Field(None, description="Adadelta, or Adam.")
    learning_rate: float | None = Field(
        None, gt=0, description="Step size; about 0.5 suits Adadelta, 0.001 to 0.002 Adam."
    )
    schedule: Schedule | None = Field(
        None, description="The step size stays constant, or falls linearly to 0 over all epochs."
    )
    warmup_steps: int | None = Field(
        None, ge=0, description="Steps over which the step size rises; large batches want some."
    )
    rho: float | None = Field(None, ge=0, lt=1, description="Adadelta's decay of its averages.")
    epsilon: float | None = Field(None, gt=0, description="Adadelta's floor of its averages.")
    clip_norm: float | None = Field(
        None, ge=0, description="Largest norm of a step's gradient; 0 clips none."
    )
    ema_decay: float | None = Field(
        None, ge=0, lt=1, description="Decay of the averaged weights, which are scored and served."
    )
    max_answer_tokens: int | None = Field(None, ge=1, description="Longest answer, in tokens.")
    max_context_tokens: int | None = Field(
        None,
        ge=1,
        description="Longer contexts are not trained on; they are scored all the "
        "same. With window_stride, the tokens of a window.",
    )
    max_question_tokens: int | None = Field(
        None, ge=1, description="Longer questions are not trained on."
    )
    window_stride: int | None = Field(
        None,
        ge=0,
        description="Read longer contexts in windows of max_context_tokens tokens that begin so "
        "many tokens apart, in training and in answering; half of it suits, 0 reads them whole.",
    )
    seed: int | None = Field(
        None, ge=0, description="Draws first weights, order of batches, dropout."
    )
    patience: int | None = Field(
        None,
        ge=1,
        description="End after so many epochs without a better validation F1; the best is kept.",
    )
    stop_at_f1: float | None = Field(
        None, gt=0, le=100, description="End when validation F1 (0 to 100) has reached this."
    )
    max_minutes: float | None = Field(
        None,
        gt=0,
        description="Train until so many minutes are used up, evaluations included; a last "
        "evaluation follows.",
    )
    precision: Precision | None = Field(
        None, description="bfloat16 computes products in it; weights stay float32."
    )
    deterministic: bool | None = Field(
        None, description="The same bits each time on GPUs too, at the price of speed."
    )
    checkpoint_minutes: float | None = Field(
        None, ge=0, description="Also write a checkpoint every so many minutes; 0: never by time."
    )
    checkpoint_steps: int | None = Field(
        None, ge=1, description="Also write a checkpoint every so many steps."
    )
    start_from: str | None = Field(
        None,
        min_length=1,
        description="Start with the weights of an earlier model: models:/<name>@champion, "
        "models:/<name>/<version>, or a model's folder.",
    )
    hidden_size: int | None = Field(None, ge=1, description="Width d of the model.")
    word_vectors: bool | None = Field(
        None, description="Whether words have vectors, or only characters."
    )
    characters: CharacterParameters = Field(
        CharacterParameters(), description="The CNN over a word's characters."
    )
    highway: Highway | None = Field(
        None, description="Highway layers over projected or concatenated embeddings, or none."
    )
    recurrent: Recurrent | None = Field(None, description="Cell of the recurrent layers.")
    query_to_context: QueryToContext | None = Field(
        None,
        description="How the question picks words of the context: the paper's max, or the "
        "CS224n starter's product.",
    )
    self_attention: SelfAttention | None = Field(
        None, description="Similarity by which the context attends to itself, or none."
    )
    output_reads: OutputReads | None = Field(
        None, description="What the output layer sees beside the modeling layer."
    )
    end_pointer: EndPointer | None = Field(
        None, description="How the answer's end depends on its start."
    )
    dropout: float | None = Field(None, ge=0, le=0.99, description="Share of inputs dropped.")
    unknown_words: UnknownWords | None = Field(
        None,
        description="What stands for words without a vector: zero, a random or a trainable vector "
        "for each, or subword: spelt by letters, with fastText's vectors.",
    )
    dropout_form: DropoutForm | None = Field(
        None, description="Dropout behind layers, in front of them, or one mask for a sequence."
    )

    def changes(self) -> dict[str, Any]:
        """The variant's fields that were set; None turns a field off."""
        changed = self.model_dump(exclude_none=True, exclude={"start_from"})
        characters = changed.pop("characters")
        if characters:
            changed["characters"] = characters if self.characters.embedding_size != 0 else None
        return changed | {name: None for name in OFF_AT_0 if changed.get(name) == 0}


class CorpusParameters(Form):
    """The texts to train word vectors on."""

    files: list[str] = Field(
        [],
        description="Text files (a paragraph a line), folders, .gz, .xz, .zst or .zip of them, "
        "globs, Parquet files (pages.parquet#column), or known corpora (which `make datasets` "
        "lists).",
    )
    dataset: str | None = Field(
        None, description="A dataset, known or your own, whose training contexts are read too."
    )
    lower_case: bool = Field(True, description="Words are learnt in lower case.")


class VectorParameters(Form):
    """The word vectors that the variants read; models keep them frozen."""

    source: Annotated[str, AfterValidator(check_choice)] = Field(
        PACKAGED,
        description="glove-6b-50d; a known set, which is downloaded (`make datasets` lists them), "
        "such as glove.840B.300d; a file: GloVe's .txt or .zip, word2vec's or fastText's .bin, "
        ".txt or .vec, or the vectors.parquet of a set that was trained here; or a method (cbow, "
        "skipgram, fasttext, glove), by which they are trained on `corpus` first; none for "
        "variants that read only characters.",
    )
    corpus: CorpusParameters = Field(
        CorpusParameters(), description="The texts to train on, where `source` is a method."
    )
    training: EmbeddingSettings = Field(
        EmbeddingSettings(), description="How they are trained, where `source` is a method."
    )
    start: VectorStart | None = Field(
        None, description="A set of vectors that training goes on from, new words being added."
    )

    @model_validator(mode="after")
    def _training_has_an_effect(self) -> Self:
        default = {name: field.default for name, field in type(self).model_fields.items()}
        idle = [n for n in ("corpus", "training", "start") if getattr(self, n) != default[n]]
        if idle and self.source not in METHODS:
            raise ValueError(
                f"{' and '.join(idle)} would have no effect: source is {self.source}, and vectors "
                f"are trained only where it is a method ({', '.join(METHODS)})"
            )
        if self.source in METHODS:
            require_effect(self.source, self.training)
        return self


def vectors_for(configs: Sequence[VariantConfig], chosen: VectorParameters) -> VectorParameters:
    """The vectors that the variants need: none if no variant reads words.

    Raises:
        UserError: a variant reads words, but `chosen` is "none"; or a variant composes OOV words
            from subwords, but `chosen` is a training method without n-grams.
    """
    readers = [config.name for config in configs if config.model.word_vectors]
    if not readers:
        return VectorParameters(source=NO_VECTORS)
    if chosen.source == NO_VECTORS:
        raise UserError(
            f"vectors.source is {NO_VECTORS}, but the variant {readers[0]} reads word vectors "
            "(word_vectors); choose vectors, or variants that read only characters."
        )
    if chosen.source in METHODS and chosen.source != "fasttext" and reads_spelt_words(configs):
        raise UserError(
            f"unknown_words is 'subword', and vectors that {chosen.source} trains have no n-grams: "
            "set vectors.source to fasttext, or unknown_words to 'zero', 'random' or 'trainable'."
        )
    return chosen


def reads_spelt_words(configs: Sequence[VariantConfig]) -> bool:
    """Whether any of the variants composes OOV words from subwords (n-grams)."""
    return any(config.model.unknown_words == "subword" for config in configs)


def configure(name: VariantName, *changes: dict[str, Any]) -> VariantConfig:
    """A preset with changed fields; later changes override earlier ones.

    Raises:
        UserError: the changed preset would be invalid; the message names the field.
    """
    merged = {key: value for change in changes for key, value in change.items()}
    try:
        return preset(name).with_changes(**merged)
    except ValueError as error:
        raise UserError(str(error)) from error
