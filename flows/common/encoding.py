"""A dataset encoded for training: its vectors, its vocabulary, and the splits as type ids."""

from dataclasses import dataclass

from flows.common.parameters import VectorParameters
from flows.common.splits import Splits
from flows.common.vectors import resolve_vectors, warn_if_casing_differs
from infra.artifacts.stage import Output
from tasks.embeddings.formats.store import VECTORS, history_of, require_subwords
from tasks.stages import building_vocabulary, encoding, selecting_vectors
from tasks.text.build_vocabulary import VocabularyParameters
from tasks.tracking.runs import Split


@dataclass(frozen=True)
class Encoded:
    """The inputs of a training: the vocabulary, its vectors, and the splits as type ids."""

    vectors: Output
    vocabulary: Output
    splits: dict[Split, Output]


def encode_dataset(
    splits: Splits,
    vectors: VectorParameters,
    vocabulary: VocabularyParameters,
    compose_oov: bool = False,
) -> Encoded:
    """Select the vectors, build the vocabulary, and encode the splits.

    `compose_oov` is for variants that compose OOV words from subwords: it keeps the vectors'
    n-grams, and the rare words that can be composed from them.

    Raises:
        UserError: `compose_oov` is true, but the vectors have no n-grams.
    """
    train, *others = splits.folders.values()
    picked = selecting_vectors(
        resolve_vectors(vectors),
        [train, *others],
        vocabulary.lower_case,
        vocabulary.pretrained_words,
        compose_oov,
    )
    history = history_of(picked.folder / VECTORS)
    warn_if_casing_differs(vectors.source, history, "vocabulary.lower_case", vocabulary.lower_case)
    if compose_oov:
        require_subwords(picked.folder, vectors.source)
    built = building_vocabulary(train, others, picked.folder, vocabulary, compose_oov)
    splits_encoded = {
        name: encoding(folder, built.folder) for name, folder in splits.folders.items()
    }
    return Encoded(picked, built, splits_encoded)
