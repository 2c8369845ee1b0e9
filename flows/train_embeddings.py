"""Flow `train-embeddings`: train word vectors on your own texts, for your own domain."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run
from pydantic import Field

from flows.commands.flow_command import flow_command
from flows.commands.terminal import show
from flows.common.command_line import command_of
from flows.common.data import ingest_texts
from flows.common.failures import TRAINING_FLOW, report_user_errors
from flows.common.parameters import CorpusParameters, NamedSet, SetName
from flows.common.vectors import train_bilm, train_from_corpus
from flows.evaluate_embeddings import evaluate_embeddings
from infra.artifacts.shared_folder import local_path, shared_folder
from infra.artifacts.stage import result_of
from infra.cluster.allotment import Resources
from infra.errors import UserError
from infra.settings import settings
from infra.storage.store import shown_path
from tasks.embeddings.contextual.source import find_start_bilm, is_bilm
from tasks.embeddings.formats.export import (
    ExportFormat,
    publish_bilm,
    publish_vectors,
    require_exportable,
)
from tasks.embeddings.formats.source import PACKAGED, published_folder
from tasks.embeddings.training.config import EmbeddingParameters, reject_settings_of_start
from tasks.tracking import runs
from tasks.training.vector_runs import log_trained_vectors

LINKS = {"Report": "report", "MLflow": "run_url"}  # what the terminal shows, if it is there


@flow(name="train-embeddings", description=__doc__, **TRAINING_FLOW)
@report_user_errors
def train_embeddings(
    corpus: CorpusParameters = CorpusParameters(),
    embedding: EmbeddingParameters = EmbeddingParameters(),
    start: Annotated[
        NamedSet | None,
        Field(
            description="Warm start: continue training from this set of vectors, and add new "
            "words; for elmo, from a language model that was trained here (its name, file or "
            "folder), whose sizes and words are kept. Empty: train from scratch.",
        ),
    ] = None,
    name: SetName = "trained",
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
            min_length=1,
            description="Dataset on which the new set is evaluated after training, next to `start` "
            "or glove-6b-50d. Empty: no evaluation.",
        ),
    ] = None,
) -> dict[str, Any]:
    """Train a set of vectors, publish it, and evaluate it if `evaluate_on` names a dataset.

    Returns the facts about the set, and the paths of its files and of its evaluation.
    """
    require_valid_for_method(embedding, start, exports)
    if evaluate_on is not None:
        ingest_texts(evaluate_on)  # report invalid data before training
    folder, is_elmo = settings().root.resolve() / "embeddings" / name, embedding.method == "elmo"
    if is_elmo:
        trained, title = train_bilm(corpus, embedding, start, resources), "Language model"
    else:
        trained, title = train_from_corpus(corpus, embedding, start), "Word vectors"
    with shared_folder(folder):
        if is_elmo:
            files = [publish_bilm(trained.folder, folder)]
        else:
            files = publish_vectors(trained.folder, folder, exports)
    if is_elmo:  # whose training logged its own run, below one of the flow
        runs.finish_flow_run(str(flow_run.id), "FINISHED")
    else:
        log_trained_vectors(name, trained.folder)
    create_table_artifact([trained.facts], key="embeddings", description=f"{title}: {folder}")
    result = {
        **trained.facts,
        "cached": trained.cached,
        "files": [shown_path(file) for file in files],
    }
    if evaluate_on is not None:
        sets = evaluation_parameters(files[0], start, embedding.method, corpus)
        state: Any = evaluate_embeddings(**sets, dataset=evaluate_on, return_state=True)
        result |= {"dataset": evaluate_on, "report": result_of(state)["report"]}
    return result


def evaluation_parameters(
    file: Path, start: str | None, method: str, corpus: CorpusParameters
) -> dict[str, Any]:
    """The sets to evaluate after a training, and the case in which their words are looked up.

    The new set is compared with its start set, unless it replaced it, or else with the packaged
    one. A language model reads words in the case of its training, whatever the evaluation's.
    """
    other = start or PACKAGED
    places = (local_path(other).resolve(), published_folder(other))
    replaced = file in places or file.parent in places
    return {
        "vectors": [str(file)] if replaced else [str(file), other],
        "lower_case": method == "elmo" or corpus.lower_case,
    }


def require_valid_for_method(
    embedding: EmbeddingParameters, start: str | None, exports: Sequence[ExportFormat]
) -> None:
    """Check that the method takes the start set, the settings beside it, and the exports.

    Raises:
        UserError: it does not.
    """
    require_exportable(exports, embedding.method)
    if embedding.method == "elmo":
        if exports:
            raise UserError(
                "exports has no effect with method elmo, whose vectors depend on the sentence. "
                "Omit it."
            )
        if start is not None:
            find_start_bilm(start)
            reject_settings_of_start(embedding)
    elif start is not None and is_bilm(start):
        raise UserError(
            f"start is {start}, but method {embedding.method} continues from word vectors. Change "
            "start, or omit it to train from scratch."
        )


def announce(facts: dict[str, Any]) -> None:
    """Print what was trained, where it is, and the next commands."""
    corpus, file = facts["corpus"], facts["files"][0]
    reused = ", reused from an earlier training" if facts["cached"] else ""
    if facts["method"] == "elmo":
        details = [_perplexities(facts)]
        use = {"variants": ["char-elmo"], "vectors.contextual": file}
    elif "carried_over" in facts:
        details = [
            f"Warm start: {facts['carried_over']:,} words trained further, "
            f"{facts['unchanged']:,} unchanged, {facts['new']:,} new."
        ]
        use = {"vectors.source": file}
    else:
        # Vectors of a domain gain beside general ones, not instead (docs/case-medicine.md).
        details, use = [], {"vectors.source": f"{PACKAGED}+{file}"}
    data = {"data.dataset": facts.get("dataset", "FILE")}
    show(
        f"\n{facts['method']}, dimension {facts['dimension']}: {facts['words']:,} words from a "
        f"corpus of {corpus['words']:,} tokens ({corpus['distinct']:,} distinct){reused}.",
        *details,
        *(f"File       {file}" for file in facts["files"]),
        *(f"{key:11}{facts[name]}" for key, name in LINKS.items() if name in facts),
        "",
        f"Next       {command_of('evaluate-embeddings', {'vectors': [file]})}",
        f"           {command_of('retrain', data | use)}",
    )


def _perplexities(facts: dict[str, Any]) -> str:
    (first, last), words = facts["history"], facts["history"][0]["words"]
    before = f"after the first {words:,} words" if words else "the start model's"
    return (
        f"Perplexity of {facts['held_out_words']:,} held-out words: forward "
        f"{last['held_out/perplexity_forward']:,.1f}, backward "
        f"{last['held_out/perplexity_backward']:,.1f}, mean {last['held_out/perplexity_mean']:,.1f}"
        f" ({before}: {first['held_out/perplexity_mean']:,.1f})."
    )


command = flow_command(train_embeddings, announce)
