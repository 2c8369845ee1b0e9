"""Flow `train-embeddings`: train word vectors on your own texts, for your own domain."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from pydantic import Field

from flows.commands.flow_command import flow_command
from flows.commands.terminal import show
from flows.common.encoding import train_bilm, train_from_corpus
from flows.common.failures import TRAINING_FLOW, report_user_errors
from flows.common.parameters import CorpusParameters, DataParameters, VectorStart
from flows.common.splits import ingest_dataset
from flows.evaluate_embeddings import evaluate_embeddings
from infra.artifacts.shared_folder import shared_folder, shown_path
from infra.artifacts.stage import result_of
from infra.cluster.allotment import Resources
from infra.errors import UserError
from infra.settings import settings
from tasks.embeddings.formats.export import (
    ExportFormat,
    publish_bilm,
    publish_vectors,
    require_exportable,
)
from tasks.embeddings.formats.source import BILM_SUFFIX, PACKAGED
from tasks.embeddings.training.config import EmbeddingParameters


@flow(name="train-embeddings", description=__doc__, **TRAINING_FLOW)
@report_user_errors
def train_embeddings(
    corpus: CorpusParameters = CorpusParameters(),
    embedding: EmbeddingParameters = EmbeddingParameters(),
    start: Annotated[
        VectorStart | None,
        Field(
            description="Warm start: continue training from this set of vectors, and add new "
            "words; for elmo, from this bilm.safetensors. Empty: train from scratch."
        ),
    ] = None,
    name: Annotated[
        str,
        Field(
            pattern=r"^\w[\w.-]*$",
            description="Name of the set. It is written to .bidaflow/embeddings/<name>, where "
            "retrain can read it.",
        ),
    ] = "trained",
    exports: Annotated[
        list[ExportFormat],
        Field(
            description="Additional export formats: glove (text), word2vec (text), "
            "word2vec-binary, or fasttext-binary (fasttext only; other tools compose OOV words "
            "from it)."
        ),
    ] = [],
    resources: Annotated[
        Resources, Field(description="Workers, CPUs and GPUs. Used by method elmo only.")
    ] = Resources(),
    evaluate_on: Annotated[
        str | None,
        Field(
            description="Dataset on which the new set is evaluated after training, next to `start` "
            "or glove-6b-50d. Empty: no evaluation."
        ),
    ] = None,
) -> dict[str, Any]:
    """Train a set of vectors, publish it, and evaluate it if `evaluate_on` names a dataset.

    Returns the facts about the set, and the paths of its files and of its evaluation.
    """
    require_valid_for_method(embedding.method, start, exports)
    require_exportable(exports, embedding.method)
    if evaluate_on is not None:
        ingest_dataset(DataParameters(dataset=evaluate_on))  # report invalid data before training
    folder = settings().root.resolve() / "embeddings" / name
    if embedding.method == "elmo":
        trained, title = train_bilm(corpus, embedding, start, resources), "Language model"
    else:
        trained, title = train_from_corpus(corpus, embedding, start), "Word vectors"
    with shared_folder(folder):
        if embedding.method == "elmo":
            files = [publish_bilm(trained.folder, folder)]
        else:
            files = publish_vectors(trained.folder, folder, exports)
    create_table_artifact([trained.facts], key="embeddings", description=f"{title}: {folder}")
    result = {
        **trained.facts,
        "cached": trained.cached,
        "files": [shown_path(file) for file in files],
    }
    if evaluate_on is None:
        return result
    sets = [str(files[0])]
    other = start or PACKAGED
    if Path(other).expanduser().resolve() != files[0]:  # the new set did not replace it
        sets.append(other)
    evaluation: Any = evaluate_embeddings(
        sets, evaluate_on, lower_case=corpus.lower_case, return_state=True
    )
    return {**result, "report": result_of(evaluation)["report"]}


def require_valid_for_method(
    method: str, start: str | None, exports: Sequence[ExportFormat]
) -> None:
    """Check that the method takes the start set and the exports.

    Raises:
        UserError: it does not.
    """
    is_bilm = start is not None and start.endswith(BILM_SUFFIX)
    if start is not None and is_bilm != (method == "elmo"):
        expected = (
            "the bilm.safetensors of a language model" if method == "elmo" else "word vectors"
        )
        raise UserError(
            f"start is {start}, but method {method} continues from {expected}. Change start, or "
            "omit it to train from scratch."
        )
    if method == "elmo" and exports:
        raise UserError(
            "exports has no effect with method elmo, whose vectors depend on the sentence. Omit it."
        )


def announce(facts: dict[str, Any]) -> None:
    """Print what was trained, where it is, and the next commands."""
    corpus, vectors = facts["corpus"], facts["files"][0]
    reused = ", reused from an earlier training" if facts["cached"] else ""
    show(
        f"\n{facts['method']}, dimension {facts['dimension']}: {facts['words']:,} words from a "
        f"corpus of {corpus['words']:,} tokens ({corpus['distinct']:,} distinct){reused}."
    )
    if facts["method"] == "elmo":
        _announce_bilm(facts)
        return
    if "carried_over" in facts:
        show(
            f"Warm start: {facts['carried_over']:,} words trained further, {facts['unchanged']:,} "
            f"unchanged, {facts['new']:,} new."
        )
    show(
        *(f"File       {file}" for file in facts["files"]),
        *([f"Report     {facts['report']}"] if "report" in facts else []),
        "",
        f"Next       bidaflow embeddings evaluate --vectors {vectors}",
        f"           bidaflow retrain --vectors.source {vectors}",
    )


def _announce_bilm(facts: dict[str, Any]) -> None:
    """Print the perplexities, and where the model is."""
    (first, last), file = facts["history"], facts["files"][0]
    show(
        f"Perplexity of {facts['held_out_words']:,} held-out words: forward "
        f"{last['held_out/perplexity_forward']:,.1f}, backward "
        f"{last['held_out/perplexity_backward']:,.1f}, mean {last['held_out/perplexity_mean']:,.1f}"
        f" (after the first {first['words']:,} words: {first['held_out/perplexity_mean']:,.1f}).",
        "By comparison: unigram model "
        f"{facts['baselines']['held_out/perplexity_unigram']:,.1f}, trigram model "
        f"{facts['baselines']['held_out/perplexity_trigram']:,.1f}.",
        f"File       {file}",
        *([f"Report     {facts['report']}"] if "report" in facts else []),
        f"MLflow     {facts['run_url']}",
        "",
        f"Next       bidaflow embeddings evaluate --vectors {file}",
        f"           bidaflow retrain --variants char-elmo --vectors.contextual {file}",
    )


command = flow_command(train_embeddings, announce)
