"""A dataset encoded for training: its vectors, its vocabulary, and the splits as type ids."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from logging import INFO, WARNING

from prefect import get_run_logger

from flows.common.display_names import names_of_vectors
from flows.common.parameters import VectorParameters
from flows.common.splits import Splits
from flows.common.vectors import prepare_vectors, warn_if_casing_differs
from infra.artifacts.stage import Output
from infra.errors import UserError
from infra.settings import settings
from tasks.embeddings.contextual.source import find_bilm
from tasks.embeddings.contextual.stored_layers import require_space
from tasks.embeddings.formats.source import NO_VECTORS, VECTORS
from tasks.embeddings.formats.store import history_of, require_subwords
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
