"""The texts of a corpus, found by name: files, known corpora, and the training contexts of a
dataset."""

from pathlib import Path, PurePosixPath

from flows.common.data_files import local_copy
from flows.common.parameters import CorpusParameters, DataParameters
from flows.common.splits import Splits, ingest_texts
from infra.artifacts.stage import Output
from infra.errors import UserError
from infra.masking import mask_secrets
from tasks.datasets.catalog import LEXICAL_RESOURCES
from tasks.datasets.paths import find_remote_files, is_uri
from tasks.embeddings.training.corpus_files import (
    TEXT_NAMES,
    TextFile,
    find_texts,
    has_text_name,
    split_column,
)
from tasks.stages import fetching


def corpus_files(corpus: CorpusParameters, splits: Splits | None = None) -> list[TextFile]:
    """The files of a corpus, each once, with the training contexts of `corpus.dataset` last.

    `splits` are those of the run that uses the vectors. The training contexts are then the run's
    own, or those of another dataset that is split in the same way: split differently, they would
    include contexts that the run holds out.

    Raises:
        UserError: the corpus names neither files nor a dataset.
    """
    named = [file for spec in corpus.files for file in _find_texts(spec)]
    files = list({(file.path.resolve(), file.column): file for file in named}.values())
    if corpus.dataset is not None:
        train = _training_split(corpus.dataset, splits)
        files.append(TextFile(train.folder / "contexts.parquet"))
    if not files:
        raise UserError("No corpus of texts to read. Set corpus.files or corpus.dataset.")
    return files


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
    if is_uri(spec):
        return _fetch_texts(spec)
    known = LEXICAL_RESOURCES.get(spec)
    if known is None or known.kind != "corpus" or Path(spec).exists():
        return find_texts(spec)
    return [TextFile(fetching(known.source).folder / known.source.name)]


def _fetch_texts(spec: str) -> list[TextFile]:
    uri, column = split_column(spec)
    texts = [file for file in find_remote_files(uri) if has_text_name(PurePosixPath(file.name))]
    if not texts:
        raise UserError(
            f"{mask_secrets(uri)}: no texts there; expected names that end in {TEXT_NAMES}."
        )
    return [TextFile(local_copy(file), column) for file in texts]
