"""Flow `build-vocabulary`: collect a dataset's words, characters and word types, with vectors."""

from prefect import flow

from flows.common.encoding import encode_dataset, require_same_casing
from flows.common.failures import report_user_errors
from flows.common.parameters import DataParameters, VectorParameters
from flows.common.splits import ingest_dataset
from tasks.text.build_vocabulary import VocabularyParameters


@flow(name="build-vocabulary", description=__doc__)
@report_user_errors
def build_vocabulary(
    data: DataParameters = DataParameters(),
    vectors: VectorParameters = VectorParameters(),
    vocabulary: VocabularyParameters = VocabularyParameters(),
) -> dict[str, object]:
    """Build the vocabulary of a dataset, and return the facts about it."""
    require_same_casing([vectors], vocabulary)
    return encode_dataset(ingest_dataset(data), vectors, vocabulary).vocabulary.facts
