"""The parameters of a flow, for Prefect's form and for the command line."""

import re
from collections import defaultdict
from collections.abc import Callable
from inspect import getdoc, signature
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, WithJsonSchema, model_validator
from pydantic.fields import FieldInfo

from flows.common.presets import check_variant, known_presets
from infra.form import Form, Seed, with_bounds
from models.configs.presets import PRESETS
from models.configs.variant import Precision, UnknownWords
from tasks.data.importers.table import parse_columns
from tasks.data.splits import Overlap
from tasks.datasets.catalog import DATASETS, FEW_QUESTIONS, FOR_FEW_QUESTIONS
from tasks.datasets.paths import LONGEST_NAME
from tasks.embeddings.contextual.source import is_bilm
from tasks.embeddings.formats.source import (
    KNOWN_SOURCES,
    NO_VECTORS,
    PACKAGED,
    check_source,
    parts_of,
)
from tasks.embeddings.training.config import DIMENSION, METHODS
from tasks.inference.no_answer import NoAnswer
from tasks.text.build_vocabulary import VocabularyConfig

VariantName = Annotated[
    str,
    AfterValidator(check_variant),
    # A form offers only names: whoever submits a run must not run code.
    WithJsonSchema({"type": "string", "enum": list(known_presets())}),
]
Variants = Annotated[
    list[VariantName],
    Field(
        min_length=1,
        description=f"Model variants to train, in this order: {', '.join(known_presets())}. In a "
        "terminal also FILE.py:NAME, a preset of your own.",
    ),
]


def check_vector_source(spec: str) -> str:
    """Accept a set of vectors, a method to train one, or several of these joined with "+"."""
    parts = parts_of(spec)
    for part in parts:
        if part not in METHODS:
            check_source(part)
    if len(parts) > 1 and NO_VECTORS in parts:
        raise ValueError(f"{NO_VECTORS!r} can't be joined with other vectors; omit it")
    if len(parts) != len(set(parts)) or len(set(METHODS).intersection(parts)) > 1:
        raise ValueError(f"{spec!r} joins a set twice, or several methods; name each set once")
    return spec


def check_set(spec: str) -> str:
    """Accept a set of vectors or a language model; `none` is neither."""
    if spec == NO_VECTORS:
        raise ValueError(f"{spec!r} is not valid here; name a set of vectors, or omit the option")
    return spec if is_bilm(spec) else check_source(spec)


def check_set_name(name: str) -> str:
    """Accept a name that files can have, and that names nothing else where sets are named."""
    if name in (*METHODS, *KNOWN_SOURCES):
        raise ValueError(f"{name!r} names a method or a known set; choose another name")
    if len(name.encode()) > LONGEST_NAME:
        raise ValueError(f"{name!r} has more than {LONGEST_NAME} bytes; choose a shorter name")
    return name


NamedSet = Annotated[str, Field(min_length=1), AfterValidator(check_set)]
SetName = Annotated[
    str,
    Field(
        pattern=r"^\w[\w.-]*$",
        description="Name of the set, by which other commands read it. It is written to "
        ".bidaflow/embeddings/<name>.",
    ),
    AfterValidator(check_set_name),
]


# A file, directory, glob, URL or name; an empty one would be the current directory.
NonEmpty = Annotated[str, Field(min_length=1)]


class MixedSource(Form):
    """A source of questions to train on in addition to the dataset's own."""

    files: list[NonEmpty] = Field(
        min_length=1,
        description="Files, directories, globs, zip archives, URLs or known datasets.",
    )
    weight: float = Field(
        1.0,
        gt=0,
        le=100,
        description="How many times an epoch uses each question of this source; the dataset's own "
        "are used once. 0.5: a random half of them, drawn by `data.seed`.",
    )


Repair = Annotated[
    bool,
    Field(
        description="Move an answer that does not match the context at its answer_start to the "
        "nearest match; the ledger lists each repair. Off: reject such questions."
    ),
]
MaxRejected = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description="Largest fraction of a file's questions that may be rejected as invalid. If "
        "more are, the run fails.",
    ),
]
NoAnswerRule = Annotated[
    NoAnswer,
    Field(
        description="When the model gives no answer. argmax: if it is more probable than every "
        "span; threshold: as the threshold says that validation chose."
    ),
]
ShareWithoutAnswer = Annotated[
    Annotated[float, Field(gt=0, lt=1)] | None,
    Field(
        description="With the threshold: the share of unanswerable questions that it is for. "
        "Empty: the one that the training expected.",
    ),
]

PATH = {"pattern": r"[/*?~]|\.[A-Za-z]+$"}  # a separator, wildcard or extension


def _require_dataset(schema: dict[str, Any]) -> None:
    """Let the form itself check `data.dataset`: it must be chosen, and is a known name unless it is
    a path, or names training files."""
    del schema["properties"]["dataset"]["default"]
    named = {"train_files": {"maxItems": 0}, "dataset": {"not": PATH}}
    known = {"dataset": {"enum": list(DATASETS)}}
    schema |= {
        "required": ["dataset"],
        "if": {"properties": named},
        "then": {"properties": known},
    }


def check_columns(columns: str) -> str:
    """Accept FIELD=COLUMN, separated by commas."""
    parse_columns(columns)
    return columns


TableColumns = Annotated[
    str,
    AfterValidator(check_columns),
    Field(
        description="Columns of tables (CSV, TSV, JSON, Parquet) whose names differ from the "
        "fields', for example question=q,context=text,answer=a."
    ),
]


class DataParameters(Form):
    """The data to train on and to evaluate on."""

    model_config = ConfigDict(json_schema_extra=_require_dataset)

    # `kw_only`: `bidaflow check FILE` takes the dataset without its option, but no other field.
    dataset: str = Field(
        "tiny",
        min_length=1,
        description=f"A known dataset ({', '.join(DATASETS)}), or a SQuAD-format file, "
        "directory, glob, zip archive or URL. With `train_files`: a name for the dataset.",
    )
    train_files: list[NonEmpty] = Field(
        [],
        kw_only=True,
        description="Data to train on: files, directories, globs, zip archives, URLs "
        "(https://…, s3://…) or known datasets. Empty: read `dataset`.",
    )
    dev_files: list[NonEmpty] = Field(
        [],
        kw_only=True,
        description="Data to evaluate on, in the same forms as `train_files`. Empty: the dev split "
        "of `dataset`, or held-out training articles if there is none.",
    )
    mix: list[MixedSource] = Field(
        [],
        kw_only=True,
        description="Additional sources, each with a weight. They are used for training only. "
        "Of the passages with feedback, a third is held out for validation.",
    )
    columns: TableColumns = Field("", kw_only=True)
    dev_share: float = Field(
        0.1,
        kw_only=True,
        gt=0,
        lt=1,
        description="Fraction of the articles held out for dev. No effect if there is dev data.",
    )
    validation_share: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        None,
        kw_only=True,
        description="Fraction of the articles held out for validation, which decides "
        "early stopping, thresholds and promotion. Empty: 0.1 (tiny: 0). 0: no validation split.",
    )
    overlap: Overlap | None = Field(
        None,
        kw_only=True,
        description="What to do with training contexts that also occur in the evaluation set: "
        "'refuse' fails the run, 'leave out' drops them from training. Empty: 'leave out' for the "
        "dev split of a known dataset, otherwise 'refuse'.",
    )
    negatives: float = Field(
        0.0,
        kw_only=True,
        ge=0,
        le=1,
        description="Unanswerable questions to add to train and validation, as a fraction of the "
        "answerable ones. Each pairs a question with another paragraph of its article that does "
        "not contain the answer. 0: none.",
    )
    seed: Seed = Field(
        7,
        kw_only=True,
        description="Seed for the held-out articles, weighted sampling, negatives and the tiny "
        "dataset.",
    )
    repair: Repair = Field(False, kw_only=True)
    max_rejected: MaxRejected = Field(0.05, kw_only=True)

    @model_validator(mode="after")
    def _require_valid_name(self) -> Self:
        # The name becomes part of paths, and of the names of experiments and models.
        if self.train_files and not re.fullmatch(r"\w[\w. -]*", self.dataset):
            raise ValueError(
                f"with train_files, dataset must be a plain name of letters, digits, underscores, "
                f"points, hyphens and spaces, not {self.dataset!r}"
            )
        return self


def preset_values(name: str) -> str:
    """The default of a field of a variant's model or training, as a sentence: the most common
    preset's value first, then those of other presets and of known datasets."""
    presets: dict[str, list[str]] = defaultdict(list)
    for variant in PRESETS.values():
        values = vars(variant.model) | vars(variant.training)
        presets[_shown(values[name])].append(variant.name)
    (common, _), *others = sorted(presets.items(), key=lambda item: -len(item[1]))
    exceptions = [f"{', '.join(names)}: {value}" for value, names in others]
    exceptions += [
        f"on {dataset.name}: {_shown(dataset.training[name])}"
        for dataset in DATASETS.values()
        if name in dataset.training
    ]
    if name in FOR_FEW_QUESTIONS:
        value = _shown(FOR_FEW_QUESTIONS[name])
        exceptions.append(f"on own data with fewer than {FEW_QUESTIONS:,} questions: {value}")
    return f"Default: {common} ({'; '.join(exceptions)})." if exceptions else f"Default: {common}."


def _shown(value: Any) -> str:
    if value is None:
        return "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


class TrainingParameters(Form):
    """Changes to every variant's preset; an empty field keeps the preset's or dataset's value."""

    epochs: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None,
        description="Maximum number of passes over the training data. " + preset_values("epochs"),
    )
    optimizer: Literal["adadelta", "adam"] | None = Field(
        None,
        description="Optimiser. Set `learning_rate` to suit it. " + preset_values("optimizer"),
    )
    learning_rate: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="Peak learning rate: about 0.5 for Adadelta, 0.001 to 0.002 for Adam. "
        + preset_values("learning_rate"),
    )
    patience: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Early stopping: stop after this many epochs without a better validation F1, "
        "and keep the best weights. " + preset_values("patience"),
    )
    batch_size: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Questions per optimisation step, summed over all workers. "
        + preset_values("batch_size"),
    )
    max_minutes: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="Stop after this many minutes of training and evaluation; a final evaluation "
        "follows. " + preset_values("max_minutes"),
    )
    precision: Precision | None = Field(
        None,
        description="Precision of matrix products; weights are always float32. bfloat16 is faster "
        "on CPUs with AMX or AVX-512, and much slower on other CPUs. GPUs keep LSTMs, most of the "
        "work, in float32. " + preset_values("precision"),
    )
    seed: Seed | None = Field(
        None,
        description="Seed for weight initialisation, batch order and dropout. "
        + preset_values("seed"),
    )
    start_from: NonEmpty | None = Field(
        None,
        description="Warm start from an earlier model: models:/<name>@champion, "
        "models:/<name>/<version>, or a model directory. Empty: train from scratch.",
    )
    hidden_size: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Hidden size of all layers (d in the BiDAF paper). "
        + preset_values("hidden_size"),
    )
    dropout: Annotated[float, Field(ge=0, le=0.99)] | None = Field(
        None, description="Dropout rate. 0: no dropout. " + preset_values("dropout")
    )
    max_context_tokens: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Contexts with more tokens are skipped in training, but not in evaluation. "
        "With `window_stride`: window size in tokens. " + preset_values("max_context_tokens"),
    )
    max_answer_tokens: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Longest answer to predict, in tokens. " + preset_values("max_answer_tokens"),
    )
    # Prefect's form sends null for fields left untouched, so an empty field can't disable a
    # dataset's windows; 0 does.
    window_stride: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="Read longer contexts in sliding windows of `max_context_tokens` tokens that "
        "start this many tokens apart, in training and prediction. Half the window size works "
        "well. 0: no windows. " + preset_values("window_stride"),
    )
    unknown_words: UnknownWords | None = Field(
        None,
        description="Vector of an OOV word (one without a pretrained vector): zero, random but "
        "fixed, trainable, or composed from subwords (needs fastText vectors). "
        + preset_values("unknown_words"),
    )
    expected_no_answer: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None,
        description="Share of unanswerable questions expected in use. The no-answer threshold is "
        "chosen on validation weighted to this share. Empty: the share in the training data.",
    )

    def changes(self) -> dict[str, Any]:
        """The fields of the variant to change."""
        changed = self.model_dump(exclude_none=True, exclude={"start_from"})
        return changed | ({"window_stride": None} if changed.get("window_stride") == 0 else {})


TEXTS = (
    "Text files (one paragraph per line, optionally .gz, .xz, .zst or .zip), directories, globs, "
    "URLs (https://…, s3://…), Parquet columns (pages.parquet#column) or known corpora (listed by "
    "`bidaflow datasets`)."
)


class CorpusParameters(Form):
    """The texts to train word vectors on."""

    files: list[NonEmpty] = Field([], description=TEXTS)
    dataset: NonEmpty | None = Field(
        None,
        description="Dataset (known, or a path) whose training contexts are added to the corpus. "
        "Empty: none.",
    )
    lower_case: bool = Field(
        True,
        description="Lower-case the corpus. Must match the `vocabulary.lower_case` of trainings "
        "that read the vectors.",
    )


class VectorParameters(Form):
    """The word vectors that the variants read; models keep them frozen."""

    source: Annotated[str, AfterValidator(check_vector_source)] = Field(
        PACKAGED,
        description="glove-6b-50d (included); a known set to download, such as glove.840B.300d "
        "(`bidaflow datasets` lists them); the name of a set trained here; a file (GloVe .txt or "
        ".zip, word2vec or fastText .bin, .txt or .vec, or a .parquet); a method to train them on "
        "a corpus first (cbow, skipgram, fasttext, glove); or none, for variants that read only "
        "characters. Several joined by + are used side by side: glove-6b-50d+skipgram.",
    )
    contextual: NonEmpty | None = Field(
        None,
        description="Language model (ELMo) for variants that read contextual vectors: the name of "
        "one that `bidaflow embeddings train --embedding.method elmo` trained, its "
        "bilm.safetensors, or released weights (an .hdf5 beside its options.json, or their "
        "folder). Other variants ignore it.",
    )
    corpus_files: list[NonEmpty] = Field(
        [],
        description="If `source` is a method: texts to train the vectors on. " + TEXTS,
    )
    corpus_dataset: NonEmpty | None = Field(
        None,
        description="If `source` is a method: dataset (known, or a path) whose training contexts "
        "are added to the texts. Empty: none.",
    )
    dimension: int = Field(
        DIMENSION, ge=1, le=2000, description="If `source` is a method: dimension of the vectors."
    )

    @property
    def parts(self) -> list[str]:
        """The joined sets, or the only one."""
        return parts_of(self.source)

    @property
    def method(self) -> str | None:
        """The training method among them, if any."""
        return next((part for part in self.parts if part in METHODS), None)

    @model_validator(mode="after")
    def _require_corpus(self) -> Self:
        corpus = self.corpus_files or self.corpus_dataset
        if self.method is not None and not corpus:
            raise ValueError(
                f"source {self.method} reads a corpus; set corpus_files or corpus_dataset"
            )
        if self.method is None and corpus:
            raise ValueError(
                f"the corpus would have no effect, because source is {self.source}; set source to "
                f"a training method ({', '.join(METHODS)}), or omit the corpus"
            )
        return self


class VocabularyParameters(Form):
    """How words are looked up."""

    lower_case: bool = Field(
        True,
        description="Look up words in lower case, and train vectors on texts in lower case. "
        "Characters always keep their case.",
    )

    @property
    def config(self) -> VocabularyConfig:
        """The vocabulary to build."""
        return VocabularyConfig(lower_case=self.lower_case)


def description_of(annotation: Any) -> str | None:
    """The description in a parameter's annotation, with its bounds; None without one."""
    fields = (m for m in getattr(annotation, "__metadata__", ()) if isinstance(m, FieldInfo))
    words = next((field.description for field in fields if field.description), None)
    return words and with_bounds(words, TypeAdapter(annotation).json_schema())


def docstring_with_args(body: Callable[..., Any]) -> str:
    """A flow body's docstring, with an Args section for parameters annotated with a description.

    The docstring is the only place from which Prefect's form takes a parameter's description.
    """
    args = [
        f"    {name}: {words}"
        for name, parameter in signature(body).parameters.items()
        if (words := description_of(parameter.annotation))
    ]
    return "\n".join([getdoc(body) or "", *(["", "Args:", *args] if args else [])])
