"""Flow `build-vocabulary`: collect a dataset's words, characters and word types, with vectors."""

from prefect import flow

from flows.common.encoding import encode_dataset
from flows.common.failures import report_user_errors
from flows.common.parameters import DataParameters, VectorParameters, VocabularyParameters
from flows.common.splits import ingest_dataset


@flow(name="build-vocabulary", description=__doc__)
@report_user_errors
def build_vocabulary(
    data: DataParameters = DataParameters(),
    vectors: VectorParameters = VectorParameters(),
    vocabulary: VocabularyParameters = VocabularyParameters(),
) -> dict[str, object]:
    """Build the vocabulary of a dataset, and return the facts about it."""
    return encode_dataset(ingest_dataset(data), vectors, vocabulary.config).vocabulary.facts
