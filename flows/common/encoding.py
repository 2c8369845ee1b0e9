"""A dataset encoded for training: its vectors, its vocabulary, and the splits as type ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from logging import INFO, WARNING

from prefect import get_run_logger

from flows.common.data import Splits
from flows.common.display_names import names_of_vectors
from flows.common.parameters import VectorParameters
from flows.common.vectors import prepare_vectors, warn_if_casing_differs
from infra.artifacts.stage import Output
from infra.errors import UserError
from infra.settings import settings
from models.configs.variant import VariantConfig
from tasks.embeddings.contextual.source import find_bilm
from tasks.embeddings.contextual.stored_layers import require_space
from tasks.embeddings.formats.source import NO_VECTORS, VECTORS
from tasks.embeddings.formats.store import history_of, require_subwords
from tasks.embeddings.training.config import METHODS
from tasks.stages import (
    compute_layers_stage,
    encode_stage,
    select_bilm_stage,
    select_vectors_stage,
    vocabulary_stage,
)
from tasks.text.build_vocabulary import VocabularyConfig
from tasks.text.coverage import covered, misfit, no_word_known
from tasks.tracking.runs import Split


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
