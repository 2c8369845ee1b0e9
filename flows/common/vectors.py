"""Sets of word vectors and language models: found by name, or trained on the texts of a corpus; and
a dataset encoded with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from logging import INFO, WARNING
from pathlib import Path, PurePosixPath

from prefect import get_run_logger

from flows.common.data import Splits, ingest_texts, local_copy
from flows.common.display_names import names_of_vectors
from flows.common.parameters import CorpusParameters, DataParameters, VectorParameters
from infra.artifacts.manifest import sha256_of
from infra.artifacts.shared_folder import local_path
from infra.artifacts.stage import Output
from infra.cluster.allotment import Resources
from infra.errors import UserError
from infra.files import archive_of
from infra.masking import mask_secrets
from infra.run_logger import logger
from infra.settings import settings
from models.configs.variant import VariantConfig
from tasks.datasets.catalog import LEXICAL_RESOURCES
from tasks.datasets.paths import find_remote_files, is_uri
from tasks.embeddings.contextual.source import find_bilm, find_start_bilm, is_bilm
from tasks.embeddings.contextual.stored_layers import require_space
from tasks.embeddings.formats.source import (
    BILM,
    DOWNLOADED,
    NO_VECTORS,
    PACKAGED,
    VECTORS,
    JoinedVectors,
    VectorInput,
    packaged,
    published_set,
    stage_input,
)
from tasks.embeddings.formats.store import History, history_of, require_subwords
from tasks.embeddings.training.config import METHODS, EmbeddingParameters
from tasks.embeddings.training.corpus_files import (
    TEXT_NAMES,
    TextFile,
    find_texts,
    has_text_name,
    split_column,
)
from tasks.embeddings.training.train import require_compatible_start
from tasks.stages import (
    compute_layers_stage,
    copy_bilm_stage,
    encode_corpus_stage,
    encode_stage,
    fetch_stage,
    prepare_corpus_stage,
    select_bilm_stage,
    select_vectors_stage,
    train_bilm_stage,
    train_vectors_stage,
    vocabulary_stage,
)
from tasks.text.build_vocabulary import VocabularyConfig
from tasks.text.coverage import covered, misfit, no_word_known
from tasks.tracking.runs import Split
from tasks.training.train_variant import remove_checkpoints


def prepare_vectors(
    vectors: VectorParameters, lower_case: bool, splits: Splits | None = None
) -> VectorInput | JoinedVectors:
    """The chosen set, or several joined ones. If one is named by a training method, it is trained
    first, in lower case if the vocabulary is. For `splits`, see `corpus_files`."""
    sets = {part: resolve(part) for part in vectors.parts if part not in METHODS}
    if vectors.method is not None:
        corpus = CorpusParameters(
            files=vectors.corpus_files, dataset=vectors.corpus_dataset, lower_case=lower_case
        )
        fields = {"method": vectors.method, "dimension": vectors.dimension}
        embedding = EmbeddingParameters.model_validate(fields)
        trained = train_from_corpus(corpus, embedding, None, splits)
        sets[vectors.method] = stage_input(trained.folder / VECTORS)
    first, *others = (sets[part] for part in vectors.parts)
    return JoinedVectors((first, *others)) if others else first


def resolve(spec: str) -> VectorInput:
    """A set of vectors in the form that stages take; a known set is downloaded.

    `glove.6B/glove.6B.100d.txt` names one member of a known set that has several. A local file or
    folder takes precedence over a known set of the same name, and that over a set trained here.

    Raises:
        UserError: the set can't be found or downloaded.
    """
    folder = spec.removesuffix(f"/{VECTORS}")  # with the n-grams beside it
    local = local_path(folder)
    if (local / VECTORS).is_file():  # a set that was trained here
        return stage_input(local / VECTORS)
    if folder != spec:
        local /= VECTORS
    name, _, member = spec.partition("/")
    if name in DOWNLOADED and not (local.is_file() or archive_of(local)):
        source = DOWNLOADED[name].source
        return stage_input(fetch_stage(source).folder / source.name / member)
    if spec == PACKAGED:
        return packaged()
    if spec == NO_VECTORS:
        return spec
    if is_uri(spec) and not local.exists():
        files = find_remote_files(spec)
        if len(files) > 1:
            masked = mask_secrets(spec)
            raise UserError(f"{masked} has {len(files)} files. Name one file of vectors.")
        return stage_input(local_copy(files[0]))
    if not local.is_file() and (published := published_set(spec)):
        return stage_input(published)
    if local.is_dir():
        hint = (
            "It holds a language model: name a set of word vectors here, and the model in "
            "vectors.contextual of a training."
            if is_bilm(spec)
            else "Name a file of vectors, or a set that was trained here."
        )
        raise UserError(f"{spec} is a folder without {VECTORS}. {hint}")
    return stage_input(local)


def train_from_corpus(
    corpus: CorpusParameters,
    embedding: EmbeddingParameters,
    start: str | None,
    splits: Splits | None = None,
) -> Output:
    """Prepare the corpus, and train a set of vectors on it. For `splits`, see `corpus_files`."""
    files = corpus_files(corpus, splits)
    start_vectors = None
    if start is not None:
        start_vectors = resolve(start)
        require_compatible_start(start_vectors, embedding)
        history = history_of(start_vectors)
        warn_if_casing_differs(start, history, "corpus.lower_case", corpus.lower_case)
    prepared = prepare_corpus_stage(files, corpus.lower_case)
    return train_vectors_stage(prepared.folder, embedding, start_vectors)


def train_bilm(
    corpus: CorpusParameters,
    embedding: EmbeddingParameters,
    start: str | None,
    resources: Resources,
) -> Output:
    """Prepare and encode the corpus, and train ELMo's language model on it.

    `start` names a language model that was trained here (see `find_start_bilm`).

    Raises:
        UserError: the start model can't be read, or the corpus names no texts or too few.
    """
    start_model = None
    if start is not None:
        from tasks.embeddings.contextual.bilm_file import load_bilm  # loads torch

        file = find_start_bilm(start)
        history = load_bilm(file).history
        warn_if_casing_differs(start, history, "corpus.lower_case", corpus.lower_case)
        start_model = copy_bilm_stage(file).folder / BILM
    prepared = prepare_corpus_stage(corpus_files(corpus), corpus.lower_case).folder
    encoded = encode_corpus_stage(prepared).folder
    output = train_bilm_stage(prepared, encoded, embedding, start_model, resources)
    remove_checkpoints(output.folder)
    return output


def corpus_files(corpus: CorpusParameters, splits: Splits | None = None) -> list[TextFile]:
    """The files of a corpus, equal ones once, with the training contexts of `corpus.dataset` last.

    `splits` are those of the run that uses the vectors. The training contexts are then the run's
    own, or those of another dataset that is split in the same way: split differently, they would
    include contexts that the run holds out.

    Raises:
        UserError: the corpus names neither files nor a dataset.
    """
    named = [file for spec in corpus.files for file in _find_texts(spec)]
    distinct: dict[tuple[str | Path, str], TextFile] = {}
    for file in named:
        distinct.setdefault(_content(file), file)
    files = list(distinct.values())
    if len(files) < len(named):
        logger().info(
            f"Corpus: {len(named) - len(files):,} of {len(named):,} files are equal to others, and "
            "are not read."
        )
    if corpus.dataset is not None:
        train = _training_split(corpus.dataset, splits)
        files.append(TextFile(train.folder / "contexts.parquet"))
    if not files:
        raise UserError("No corpus of texts to read. Set corpus.files or corpus.dataset.")
    return files


def _content(file: TextFile) -> tuple[str | Path, str]:
    """What is the same for files that have the same texts."""
    # A member of a zip is no file of its own.
    return sha256_of(file.path) if file.path.is_file() else file.path, file.column


def _training_split(dataset: str, splits: Splits | None) -> Output:
    if splits is None:
        return ingest_texts(dataset).train
    data = splits.data
    # Beside training files, the default dataset does not name the data.
    if dataset == data.dataset and not (data.train_files and dataset == DataParameters().dataset):
        return splits.train
    shares = data.model_dump(include={"seed", "dev_share", "validation_share"})
    return ingest_texts(dataset, **shares).train


def _find_texts(spec: str) -> list[TextFile]:
    known = LEXICAL_RESOURCES.get(spec)
    if known is not None and known.kind == "corpus" and not Path(spec).exists():
        return [TextFile(fetch_stage(known.source).folder / known.source.name)]
    if not is_uri(spec):
        return find_texts(spec)
    uri, column = split_column(spec)
    texts = [file for file in find_remote_files(uri) if has_text_name(PurePosixPath(file.name))]
    if not texts:
        raise UserError(
            f"{mask_secrets(uri)}: no texts there; expected names that end in {TEXT_NAMES}."
        )
    return [TextFile(local_copy(file), column) for file in texts]


def warn_if_casing_differs(name: str, history: History, field: str, lower_case: bool) -> None:
    """Log a warning if a set was trained in a different case from what `field` says.

    A set without a record of its case is not checked.
    """
    trained_lower_case = history.get("lower_case", lower_case)
    if trained_lower_case != lower_case:
        get_run_logger().warning(
            f"The vectors {mask_secrets(name)} were trained with lower_case={trained_lower_case}, "
            f"but {field} is {lower_case}: words with capitals have no vector. Set {field} to "
            f"{trained_lower_case}."
        )


def vectors_for(configs: Sequence[VariantConfig], chosen: VectorParameters) -> VectorParameters:
    """The vectors that the variants need: none if no variant reads words.

    Raises:
        UserError: a variant reads words, but `chosen` is "none"; or a variant composes OOV words
            from subwords, but `chosen` is a training method without n-grams, or several sets;
            or a variant reads contextual vectors, but `chosen` names no language model, or one
            that does not exist.
    """
    contextual = [config.name for config in configs if config.model.contextual]
    if contextual and chosen.contextual is None:
        raise UserError(
            f"The variant {contextual[0]} reads contextual vectors. Set vectors.contextual to a "
            "language model, or choose another variant. `bidaflow embeddings train "
            "--embedding.method elmo` trains one."
        )
    if contextual and chosen.contextual is not None:
        find_bilm(chosen.contextual)  # refuse a name that it does not find
    else:
        chosen = chosen.model_copy(update={"contextual": None})
    readers = [config.name for config in configs if config.model.word_vectors]
    if not readers:
        return VectorParameters(source=NO_VECTORS, contextual=chosen.contextual)
    if chosen.source == NO_VECTORS:
        raise UserError(
            f"vectors.source is {NO_VECTORS}, but the variant {readers[0]} reads word vectors "
            "(word_vectors). Set vectors.source, or choose variants that read only characters."
        )
    without_ngrams = len(chosen.parts) > 1 or chosen.source in set(METHODS) - {"fasttext"}
    if without_ngrams and composes_oov_words(configs):
        raise UserError(
            f"unknown_words is 'subword', but {chosen.source} has no n-grams. Set vectors.source "
            "to one fastText set or to fasttext, or unknown_words to 'zero', 'random' or "
            "'trainable'."
        )
    return chosen


def composes_oov_words(configs: Sequence[VariantConfig]) -> bool:
    """Whether any of the variants composes OOV words from subwords (n-grams)."""
    return any(config.model.unknown_words == "subword" for config in configs)


@dataclass(frozen=True)
class Encoded:
    """The inputs of a training: the vocabulary, its vectors, and the splits as type ids; for
    contextual vectors, the language model and the layers of the splits' texts."""

    vectors: Output
    vocabulary: Output
    splits: dict[Split, Output]
    bilm: Output | None = None
    layers: dict[Split, Output] = field(default_factory=dict)


def encode_dataset(
    splits: Splits,
    vectors: VectorParameters,
    vocabulary: VocabularyConfig,
    compose_oov: bool = False,
) -> Encoded:
    """Select the vectors, build the vocabulary, and encode the splits.

    Words are those of train, and the first of the vectors. `compose_oov` is for variants that
    compose OOV words from subwords: it keeps the vectors' n-grams.

    Raises:
        UserError: `compose_oov` is true, but the vectors have no n-grams; or the vectors have no
            word of train.
    """
    train, *others = splits.folders.values()
    picked = select_vectors_stage(
        prepare_vectors(vectors, vocabulary.lower_case, splits),
        [train],
        vocabulary.lower_case,
        vocabulary.pretrained_words,
        compose_oov,
    )
    history = history_of(picked.folder / VECTORS)
    for part in history.get("parts", [{"source": vectors.source, **history}]):
        warn_if_casing_differs(part["source"], part, "vocabulary.lower_case", vocabulary.lower_case)
    if compose_oov:
        require_subwords(picked.folder, vectors.source)
    built = vocabulary_stage(train, others, picked.folder, vocabulary)
    if vectors.source != NO_VECTORS:
        report_coverage(vectors, built.facts["coverage_train"], vocabulary.lower_case)
    splits_encoded = {
        name: encode_stage(folder, built.folder) for name, folder in splits.folders.items()
    }
    if vectors.contextual is None:
        return Encoded(picked, built, splits_encoded)
    bilm = select_bilm_stage(find_bilm(vectors.contextual))
    layers = _layers(splits, splits_encoded, bilm)
    return Encoded(picked, built, splits_encoded, bilm, layers)


def report_coverage(
    vectors: VectorParameters, shares: Mapping[str, float], lower_case: bool
) -> None:
    """Log what a set covers of the text, as a warning if it does not fit it.

    Raises:
        UserError: it has no word of the text.
    """
    (name,) = names_of_vectors([vectors])
    if problem := no_word_known(name, shares):
        raise UserError(problem)
    reason = misfit(shares, lower_case)
    line = f"{covered(name, shares)} {reason or ''}".rstrip()
    get_run_logger().log(WARNING if reason else INFO, line)


def _layers(splits: Splits, encoded: dict[Split, Output], bilm: Output) -> dict[Split, Output]:
    """The layers of the splits' texts, once it is clear that the disk has space for all.

    Raises:
        UserError: it has not.
    """
    missing = sum(
        encoded[name].facts["context_tokens"] + encoded[name].facts["question_tokens"]
        for name, folder in splits.folders.items()
        if not compute_layers_stage.is_built(folder, bilm.folder)
    )
    if missing:
        shape = bilm.facts["layers"], bilm.facts["dimension"]
        require_space(missing, shape, settings().root.resolve())
    return {
        name: compute_layers_stage(folder, bilm.folder) for name, folder in splits.folders.items()
    }
