"""Flow `train-embeddings`: train word vectors on your own texts, for your own domain."""

import sys
from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from pydantic import Field
from rich.console import Console

from flows.common.cli import parameters_from
from flows.common.parameters import CorpusParameters, DataParameters, VectorStart
from flows.common.splits import ingest_dataset
from flows.common.user_errors import result_or_exit, told_in_a_sentence
from flows.common.vectors import train_set
from flows.evaluate_embeddings import evaluate_embeddings
from infra.artifacts.stage import result_of
from infra.settings import settings
from tasks.embeddings.formats.export import ExportFormat, publish_vectors, require_suited
from tasks.embeddings.formats.source import PACKAGED
from tasks.embeddings.training.config import EmbeddingParameters

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
    """Train a set of vectors, publish it, and evaluate it if `judge_on` names a dataset.

    Returns the facts about the set, and the paths of its files and of its evaluation.
    """
    require_suited(exports, embedding.method)
    if judge_on is not None:
        ingest_dataset(DataParameters(dataset=judge_on))  # report invalid data before training
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
    """The result of evaluate-embeddings for a new set and for another one, side by side.

    The other set is left out if the new one has just overwritten it.
    """
    sets = [str(new), *([other] if Path(other).expanduser().resolve() != new else [])]
    asked: dict[str, Any] = {"dataset": dataset, "lower_case": lower_case}
    return result_of(evaluate_embeddings(sets, **asked, return_state=True))


def announce(facts: dict[str, Any]) -> None:
    """Print what was trained, where it is, and the next commands."""
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
