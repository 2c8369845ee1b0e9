"""Flow `train-embeddings`: word vectors for one's own domain, trained on one's own texts."""

import sys
from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from pydantic import Field
from rich.console import Console

from flows.command_line import parameters_from
from flows.ingest import ingest_dataset
from flows.parameters import CorpusParameters, DataParameters, VectorParameters
from flows.refusals import result_or_exit, told_in_a_sentence
from infra.settings import settings
from tasks.embeddings.exports import ExportFormat, publish_vectors
from tasks.embeddings.parameters import METHODS, EmbeddingParameters
from tasks.embeddings.texts import TextFile, find_texts
from tasks.errors import UserError
from tasks.stages import Output
from tasks.steps import fetching, preparing_corpus, training_vectors
from tasks.vectors import (
    DOWNLOADED,
    NO_VECTORS,
    PACKAGED,
    VECTORS,
    VectorInput,
    VectorSource,
    packaged,
)
from tasks.word_data import COLLECTIONS

Name = Annotated[
    str,
    Field(
        pattern=r"^[\w.-]+$",
        description="The set's folder below .bidaflow/embeddings, from which retrain reads it.",
    ),
]
Exports = Annotated[
    list[ExportFormat],
    Field(description="Further files: glove (text), word2vec (text), or word2vec-binary."),
]
Start = Annotated[
    VectorSource | None,
    Field(description="A set of vectors that training goes on from, new words being added."),
]


def vectors_of(vectors: VectorParameters) -> VectorInput:
    """The set that is meant: the packaged one, a file, or one that is trained first."""
    if vectors.source in METHODS:
        chosen = vectors.training.model_dump() | {"method": vectors.source}
        trained = train_set(vectors.corpus, EmbeddingParameters(**chosen), vectors.start)
        return trained.folder / VECTORS
    return vector_input(vectors.source)


def vector_input(spec: str) -> VectorInput:
    """A set as stages take it, downloaded where it is a known one; `glove.6B/glove.6B.100d.txt` is
    a member of one that has several.

    Raises:
        UserError: it can't be had.
    """
    name, _, member = spec.partition("/")
    if name in DOWNLOADED:
        source = DOWNLOADED[name].source
        return fetching(source).folder / source.name / member
    if spec == PACKAGED:
        return packaged()
    return spec if spec == NO_VECTORS else Path(spec).expanduser()


def train_set(
    corpus: CorpusParameters, embedding: EmbeddingParameters, start: str | None
) -> Output:
    """Read the corpus, and train a set of vectors on it."""
    prepared = preparing_corpus(corpus_files(corpus), corpus.lower_case)
    begin = None if start is None else vector_input(start)
    return training_vectors(prepared.folder, embedding, begin)


def corpus_files(corpus: CorpusParameters) -> list[TextFile]:
    """The files of a corpus, the dataset's contexts behind the others."""
    files = [file for spec in corpus.files for file in _texts_of(spec)]
    if corpus.dataset is not None:
        splits = ingest_dataset(DataParameters(dataset=corpus.dataset))
        files.append(TextFile(splits.train.folder / "contexts.parquet"))
    if not files:
        raise UserError("There is no corpus to train word vectors on: give files, or a dataset.")
    return files


def _texts_of(spec: str) -> list[TextFile]:
    known = COLLECTIONS.get(spec)
    if known is None or known.kind != "corpus":
        return find_texts(spec)
    return [TextFile(fetching(known.source).folder / known.source.name)]


@flow(name="train-embeddings", description=__doc__)
@told_in_a_sentence
def train_embeddings(
    corpus: CorpusParameters = CorpusParameters(),
    embedding: EmbeddingParameters = EmbeddingParameters(),
    start: Start = None,
    name: Name = "trained",
    exports: Exports = [],
) -> dict[str, Any]:
    """Train a set of vectors and put it in its place; returns the facts about it, and where."""
    trained = train_set(corpus, embedding, start)
    folder = settings().root.resolve() / "embeddings" / name
    files = publish_vectors(trained.folder, folder, exports)
    create_table_artifact([trained.facts], key="embeddings", description=f"Word vectors: {folder}")
    return {**trained.facts, "cached": trained.cached, "files": [str(file) for file in files]}


def announce(facts: dict[str, Any]) -> None:
    """Print what was trained, where it is, and what to type next."""
    console = Console()
    corpus = facts["corpus"]
    console.print(
        f"\n{facts['method']}, {facts['dimension']} numbers a word: {facts['words']:,} words from "
        f"a corpus of {corpus['words']:,} ({corpus['distinct']:,} distinct)"
        + (", as trained before." if facts["cached"] else "."),
        highlight=False,
        soft_wrap=True,
    )
    if "carried_over" in facts:
        console.print(
            f"Of the given words {facts['carried_over']:,} were trained further and "
            f"{facts['unchanged']:,} stayed as they were; {facts['new']:,} are new.",
            highlight=False,
            soft_wrap=True,
        )
    vectors = facts["files"][0]
    for line in (
        *(f"File       {file}" for file in facts["files"]),
        "",
        f"Next       make judge VECTORS={vectors}",
        f"           make retrain VECTORS={vectors}",
    ):
        console.print(line, soft_wrap=True, highlight=False)


if __name__ == "__main__":
    parameters = parameters_from(sys.argv[1:], train_embeddings)
    announce(result_or_exit(train_embeddings(**parameters, return_state=True)))
