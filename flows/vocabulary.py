"""Flow `build-vocabulary`: words, characters and word types of a dataset, and their vectors."""

from dataclasses import dataclass

from prefect import flow

from flows.ingest import Splits, ingest_dataset
from flows.letter_case import require_one_case, warn_of_another_case
from flows.parameters import DataParameters, VectorParameters
from flows.refusals import told_in_a_sentence
from flows.train_embeddings import vectors_of
from tasks.stages import Output
from tasks.steps import building_vocabulary, encoding, selecting_vectors
from tasks.vectors import VECTORS, history_of, require_subwords
from tasks.vocabulary import VocabularyParameters


@dataclass(frozen=True)
class Encoded:
    """What a model is trained over: the vocabulary, its vectors, and the splits as type ids."""

    vectors: Output
    vocabulary: Output
    train: Output
    validation: Output | None
    dev: Output


def encode_dataset(
    splits: Splits,
    vectors: VectorParameters,
    vocabulary: VocabularyParameters,
    spell: bool = False,
) -> Encoded:
    """Pick the vectors, build the vocabulary, encode the splits.

    N-grams, and the rare words that they can spell, are kept where `spell` is true, for variants
    that read words so.

    Raises:
        UserError: they shall `spell`, and the vectors have no n-grams.
    """
    train = splits.train.folder
    others = [split.folder for split in (splits.validation, splits.dev) if split is not None]
    picked = selecting_vectors(
        vectors_of(vectors),
        [train, *others],
        vocabulary.lower_case,
        vocabulary.pretrained_words,
        spell,
    )
    history = history_of(picked.folder / VECTORS)
    warn_of_another_case(vectors.source, history, "vocabulary.lower_case", vocabulary.lower_case)
    if spell:
        require_subwords(picked.folder, vectors.source)
    built = building_vocabulary(train, others, picked.folder, vocabulary, spell)
    *validation, dev = (encoding(split, built.folder) for split in others)
    return Encoded(picked, built, encoding(train, built.folder), next(iter(validation), None), dev)


@flow(name="build-vocabulary", description=__doc__)
@told_in_a_sentence
def build_vocabulary(
    data: DataParameters = DataParameters(),
    vectors: VectorParameters = VectorParameters(),
    vocabulary: VocabularyParameters = VocabularyParameters(),
) -> dict[str, object]:
    """Build the vocabulary of a dataset; returns the facts about it."""
    require_one_case([vectors], vocabulary)
    return encode_dataset(ingest_dataset(data), vectors, vocabulary).vocabulary.facts
