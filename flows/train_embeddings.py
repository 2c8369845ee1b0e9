"""Flow `train-embeddings`: train word vectors on your own texts, for your own domain."""

from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from pydantic import Field
from rich.console import Console

from flows.commands.flow_command import flow_command
from flows.common.parameters import CorpusParameters, DataParameters, VectorStart
from flows.common.splits import ingest_dataset
from flows.common.user_errors import report_user_errors
from flows.common.vectors import train_from_corpus
from flows.evaluate_embeddings import evaluate_embeddings
from infra.artifacts.stage import result_of
from infra.settings import settings
from tasks.embeddings.formats.export import ExportFormat, publish_vectors, require_exportable
from tasks.embeddings.formats.source import PACKAGED
from tasks.embeddings.training.config import EmbeddingParameters

Name = Annotated[
    str,
    Field(
        pattern=r"^\w[\w.-]*$",
        description="Name of the set. It is written to .bidaflow/embeddings/<name>, where retrain "
        "can read it.",
    ),
]
Exports = Annotated[
    list[ExportFormat],
    Field(
        description="Additional export formats: glove (text), word2vec (text), word2vec-binary, or "
        "fasttext-binary (fasttext only; other tools compose OOV words from it)."
    ),
]
Start = Annotated[
    VectorStart | None,
    Field(
        description="Warm start: continue training from this set of vectors, and add new words. "
        "Empty: train from scratch."
    ),
]
EvaluateOn = Annotated[
    str | None,
    Field(
        description="Dataset on which the new set is evaluated after training, next to `start` or "
        "glove-6b-50d. Empty: no evaluation."
    ),
]


@flow(name="train-embeddings", description=__doc__)
@report_user_errors
def train_embeddings(
    corpus: CorpusParameters = CorpusParameters(),
    embedding: EmbeddingParameters = EmbeddingParameters(),
    start: Start = None,
    name: Name = "trained",
    exports: Exports = [],
    evaluate_on: EvaluateOn = None,
) -> dict[str, Any]:
    """Train a set of vectors, publish it, and evaluate it if `evaluate_on` names a dataset.

    Returns the facts about the set, and the paths of its files and of its evaluation.
    """
    require_exportable(exports, embedding.method)
    if evaluate_on is not None:
        ingest_dataset(DataParameters(dataset=evaluate_on))  # report invalid data before training
    trained = train_from_corpus(corpus, embedding, start)
    folder = settings().root.resolve() / "embeddings" / name
    files = publish_vectors(trained.folder, folder, exports)
    create_table_artifact([trained.facts], key="embeddings", description=f"Word vectors: {folder}")
    result = {**trained.facts, "cached": trained.cached, "files": [str(file) for file in files]}
    if evaluate_on is None:
        return result
    other = start or PACKAGED
    evaluation = evaluate_next_to(files[0], other, evaluate_on, corpus.lower_case)
    return {**result, "report": evaluation["report"]}


def evaluate_next_to(new: Path, other: str, dataset: str, lower_case: bool) -> Any:
    """The result of evaluate-embeddings for a new set and for another one, side by side.

    The other set is left out if the new one has just overwritten it.
    """
    sets = [str(new), *([other] if Path(other).expanduser().resolve() != new else [])]
    parameters: dict[str, Any] = {"dataset": dataset, "lower_case": lower_case}
    return result_of(evaluate_embeddings(sets, **parameters, return_state=True))


def announce(facts: dict[str, Any]) -> None:
    """Print what was trained, where it is, and the next commands."""
    console = Console()
    corpus = facts["corpus"]
    console.print(
        f"\n{facts['method']}, dimension {facts['dimension']}: {facts['words']:,} words from a "
        f"corpus of {corpus['words']:,} tokens ({corpus['distinct']:,} distinct)"
        + (", reused from an earlier training." if facts["cached"] else "."),
        highlight=False,
        soft_wrap=True,
    )
    if "carried_over" in facts:
        console.print(
            f"Warm start: {facts['carried_over']:,} words trained further, {facts['unchanged']:,} "
            f"unchanged, {facts['new']:,} new.",
            highlight=False,
            soft_wrap=True,
        )
    vectors = facts["files"][0]
    for line in (
        *(f"File       {file}" for file in facts["files"]),
        *([f"Report     {facts['report']}"] if "report" in facts else []),
        "",
        f"Next       bidaflow embeddings evaluate --vectors {vectors}",
        f"           bidaflow retrain --vectors.source {vectors}",
    ):
        console.print(line, soft_wrap=True, highlight=False)


command = flow_command(train_embeddings, announce)
