"""Trains ELMo's language model: the driver side, from connecting to the cluster to the file."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.artifacts.manifest import content_digest, facts_of, read_manifest
from infra.cluster.allotment import Resources, allot
from infra.errors import UserError
from infra.settings import settings
from infra.storage.store import checkpoint_storage
from models.language_model.config import PRESETS, BiLMConfig
from tasks.datasets.catalog import EMBEDDINGS
from tasks.embeddings.formats.source import BILM
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.embeddings.training.corpus import read_vocabulary
from tasks.tracking import client, runs
from tasks.tracking.metric_logger import EpochLogger

# Modules that load torch or Ray are imported locally: flows import this module, and both take
# seconds to load.
if TYPE_CHECKING:
    from tasks.training.language_model_worker import LanguageModelJob

HISTORY = "history.json"


def train_language_model(
    out: Path,
    corpus: Path,
    encoded: Path,
    parameters: EmbeddingParameters,
    start: Path | None,
    resources: Resources,
) -> dict[str, Any]:
    """Train a language model on the cluster, and log it to MLflow.

    Writes bilm.safetensors and history.json. `corpus` is a folder written by `prepare_corpus`,
    `encoded` its encoding, `start` the file of a model that the training continues. An interrupted
    training resumes from its last checkpoint.

    Raises:
        UserError: the corpus has too few words, the cluster has fewer resources than requested, or
            the start model can't be read.
    """
    from infra.cluster import ray_cluster
    from tasks.embeddings.contextual.bilm_file import TrainedBiLM, save_bilm
    from tasks.embeddings.training.encode_corpus import EncodedCorpus
    from tasks.training.language_model_worker import (
        TITLE,
        LanguageModelJob,
        load_result,
        new_language_model,
        train_language_model_worker,
    )
    from tasks.training.ray_workers import local_checkpoint, resumable, run_workers

    seconds = {"ray_start": ray_cluster.connect()}
    allotment = allot(resources)
    storage = checkpoint_storage()
    resumed = bool(storage.listed(out.name))  # checks the names that Ray copies to this machine
    config, words = _sizes_and_words(corpus, parameters, start)
    used = used_settings(parameters, start, config, len(words))
    run_id = _start_run(out.name, corpus, used, start, resources, resumed)
    with runs.finishing_run(run_id):
        job = LanguageModelJob(
            config,
            parameters.elmo.training(parameters.epoch_count, parameters.seed),
            EncodedCorpus(corpus, encoded),
            words,
            start,
            settings().tracking_uri,
            run_id,
        )
        require_enough_words(job, allotment.workers)
        began = time.perf_counter()
        result = run_workers(
            TITLE,
            train_language_model_worker,
            job,
            allotment,
            resumable(out.name, storage),
        )
        seconds["fit"] = time.perf_counter() - began
        weights, record = load_result(local_checkpoint(result.checkpoint, out.name, storage))
        runs.require_kept(run_id)
        history = record.history
        logger = EpochLogger(job.tracking_uri, run_id, unsent=record.unsent)
        logger.complete(history, "held_out/perplexity_mean")
        model = new_language_model(job)
        model.load_state_dict(weights)
        made = _how_it_was_made(corpus, used, start)
        save_bilm(out / BILM, TrainedBiLM(model, job.words, made))
        (out / HISTORY).write_text(json.dumps(history, indent=1) + "\n", encoding="utf-8")
        runs.log_artifacts(run_id, [out / HISTORY])
    return {
        "method": parameters.method,
        "dimension": model.bilm.config.vector_size,
        "words": len(job.words),
        "corpus": {n: facts_of(corpus)[n] for n in ("words", "distinct", "paragraphs")},
        "parameters": sum(tensor.numel() for tensor in model.bilm.parameters()),
        "held_out_words": facts_of(encoded)["held_out_words"],
        "history": [_rounded(history[0]), _rounded(history[-1])],
        "run_id": run_id,
        "run_url": client.run_url(run_id),
        "seconds": seconds,
    }


def _sizes_and_words(
    corpus: Path, parameters: EmbeddingParameters, start: Path | None
) -> tuple[BiLMConfig, list[str]]:
    """The sizes of the model and the words that it predicts: those of the start model, if any."""
    from tasks.embeddings.contextual.bilm_file import load_bilm

    if start is not None:
        started = load_bilm(start)
        return started.model.bilm.config, list(started.words)
    words = list(read_vocabulary(corpus, parameters.min_count))
    return PRESETS[parameters.elmo.preset], words[: parameters.elmo.vocabulary]


def require_enough_words(job: "LanguageModelJob", workers: int) -> None:
    """Check that each worker has words to read.

    Raises:
        UserError: the corpus, or the batch, is too small.
    """
    from models.language_model.streams import Tracks
    from tasks.embeddings.training.encode_corpus import HELD_OUT, TRAIN

    if job.training.tracks < workers:
        raise UserError(
            f"elmo.batch_size is {job.training.tracks}, but each of the {workers} workers reads a "
            "track of its own. Raise elmo.batch_size, or reduce resources.workers."
        )
    for part in (TRAIN, HELD_OUT):
        try:
            corpus = job.corpus.load(part, job.words)
            Tracks(corpus, job.training.tracks, job.training.steps, slice(0, None, workers))
        except ValueError as error:
            raise UserError(
                f"The corpus is too small: in {part}, {error}. Add texts, or "
                "reduce elmo.window or resources.workers."
            ) from error


def _start_run(
    stage: str,
    corpus: Path,
    used: dict[str, Any],
    start: Path | None,
    resources: Resources,
    resumed: bool,
) -> str:
    config = {
        **used,
        "start": None if start is None else content_digest(start),
        "resources": resources.params,
    }
    digest = content_digest(corpus)
    run = runs.VariantRun(
        f"elmo · seed {used['seed']}",
        stage,
        config,
        {"corpus.digest": digest, "lower_case": str(_lower_case(corpus))},
        [runs.corpus_dataset(corpus, digest)],
    )
    return runs.start_variant_run(runs.parent_run_of(EMBEDDINGS), run, resumed)


def _how_it_was_made(corpus: Path, used: dict[str, Any], start: Path | None) -> dict[str, Any]:
    made = {
        "method": "elmo",
        "corpus": content_digest(corpus),
        "lower_case": _lower_case(corpus),
        "parameters": used,
    }
    return made if start is None else made | {"start": content_digest(start)}


def used_settings(
    parameters: EmbeddingParameters, start: Path | None, config: BiLMConfig, words: int
) -> dict[str, Any]:
    """The settings that the training uses, the model's sizes, and its number of words.

    With a start model, the settings that it overrides are left out.
    """
    used = parameters.model_dump(include={"method", "min_count", "seed", "elmo"})
    if start is not None:
        del used["min_count"], used["elmo"]["preset"], used["elmo"]["vocabulary"]
    return {
        **used,
        "epochs": parameters.epoch_count,
        "sizes": config.to_dict(),
        "words": words,
    }


def _lower_case(corpus: Path) -> bool:
    return bool(read_manifest(corpus)["inputs"]["lower_case"])


def _rounded(entry: "dict[str, float]") -> dict[str, float]:
    return {name: round(value, 3) for name, value in entry.items()}
