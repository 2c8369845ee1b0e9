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
from flows.letter_case import warn_of_another_case
from flows.parameters import CorpusParameters, DataParameters, VectorParameters, VectorStart
from flows.refusals import result_or_exit, told_in_a_sentence
from infra.settings import settings
from tasks.embeddings.exports import ExportFormat, publish_vectors, require_suited
from tasks.embeddings.parameters import METHODS, EmbeddingParameters
from tasks.embeddings.texts import TextFile, find_texts
from tasks.embeddings.train import require_fitting_start
from tasks.errors import UserError
from tasks.inputs import archive_of
from tasks.stages import Output, result_of
from tasks.steps import fetching, preparing_corpus, training_vectors
from tasks.vectors import (
    DOWNLOADED,
    NO_VECTORS,
    PACKAGED,
    VECTORS,
    VectorInput,
    history_of,
    packaged,
)
from tasks.word_data import COLLECTIONS

Name = Annotated[
    str,
    Field(
        pattern=r"^\w[\w.-]*$",
        description="The set's folder below .bidaflow/embeddings, from which retrain reads it.",
    ),
]
Exports = Annotated[
    list[ExportFormat],
    Field(
        description="Further files: glove (text), word2vec (text), word2vec-binary, or, of a "
        "fasttext set, fasttext-binary, which other tools spell unknown words by."
    ),
]
Start = Annotated[
    VectorStart | None,
    Field(description="A set of vectors that training goes on from, new words being added."),
]
JudgeOn = Annotated[
    str | None,
    Field(
        description="A dataset, known or your own, on which the set is judged in the end, beside "
        "what it went on from, or glove-6b-50d."
    ),
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
    a member of one that has several. A file that is here is meant before a known one.

    Raises:
        UserError: it can't be had.
    """
    local = Path(spec).expanduser()
    name, _, member = spec.partition("/")
    if name in DOWNLOADED and not (local.is_file() or archive_of(local)):
        source = DOWNLOADED[name].source
        return fetching(source).folder / source.name / member
    if spec == PACKAGED:
        return packaged()
    return spec if spec == NO_VECTORS else local


def train_set(
    corpus: CorpusParameters, embedding: EmbeddingParameters, start: str | None
) -> Output:
    """Read the corpus, and train a set of vectors on it."""
    files = corpus_files(corpus)
    begin = None
    if start is not None:
        begin = vector_input(start)
        require_fitting_start(begin, embedding)
        warn_of_another_case(start, history_of(begin), "corpus.lower_case", corpus.lower_case)
    prepared = preparing_corpus(files, corpus.lower_case)
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
    if known is None or known.kind != "corpus" or Path(spec).exists():
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
    judge_on: JudgeOn = None,
) -> dict[str, Any]:
    """Train a set of vectors, put it in its place and judge it if that is asked for; returns the
    facts about it, and where it and its judgement are."""
    require_suited(exports, embedding.method)
    if judge_on is not None:
        ingest_dataset(DataParameters(dataset=judge_on))  # what is wrong in it is told now
    trained = train_set(corpus, embedding, start)
    folder = settings().root.resolve() / "embeddings" / name
    files = publish_vectors(trained.folder, folder, exports)
    create_table_artifact([trained.facts], key="embeddings", description=f"Word vectors: {folder}")
    told = {**trained.facts, "cached": trained.cached, "files": [str(file) for file in files]}
    if judge_on is None:
        return told
    page = judged(files[0], start or PACKAGED, judge_on, corpus.lower_case)["page"]
    return {**told, "judgement": page}


def judged(new: Path, other: str, dataset: str, lower_case: bool) -> Any:
    """What judge-embeddings says of a new set beside another one, unless that has just been
    overwritten."""
    from flows.judge_embeddings import judge_embeddings  # which imports this module

    sets = [str(new), *([other] if Path(other).expanduser().resolve() != new else [])]
    asked: dict[str, Any] = {"dataset": dataset, "lower_case": lower_case}
    return result_of(judge_embeddings(sets, **asked, return_state=True))


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
        *([f"Judgement  {facts['judgement']}"] if "judgement" in facts else []),
        "",
        f"Next       make judge VECTORS={vectors}",
        f"           make retrain VECTORS={vectors}",
    ):
        console.print(line, soft_wrap=True, highlight=False)


if __name__ == "__main__":
    parameters = parameters_from(sys.argv[1:], train_embeddings)
    announce(result_or_exit(train_embeddings(**parameters, return_state=True)))
