"""Joins trained models into one that answers by the mean of their probabilities."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from prefect.runtime import flow_run

from infra.artifacts.manifest import facts_of
from tasks.evaluation.evaluate import EvaluationSplit, evaluate, load_split, write_predictions
from tasks.evaluation.metrics import (
    best_threshold,
    evaluation_metrics,
    metrics_at_threshold,
    no_answer_metrics,
)
from tasks.inference.trained_contexts import join_trained_contexts
from tasks.tracking import client, model_logging, runs
from tasks.tracking.runs import Split

if TYPE_CHECKING:
    from tasks.inference.ensemble import Ensemble
    from tasks.inference.predictor import Predictor

# Torch is imported locally, because it takes seconds to load.

TIMED_QUESTIONS = 50


def build_ensemble(
    out: Path, dataset: str, members: Sequence[Path], splits: Mapping[Split, Path]
) -> dict[str, Any]:
    """Join trained variants, given by the folders of their stages, into one registered model.

    `splits` are the ingested splits that all of them were trained and evaluated on. Temperature and
    no-answer threshold are chosen on validation, if there is one. Writes model/ and
    predictions.parquet; the facts have the time of an answer and the size of each model.
    """
    from tasks.inference.ensemble import join, load_model, save_ensemble

    trained = [facts_of(member) for member in members]
    variant = " + ".join(facts["variant"] for facts in trained)
    run = runs.VariantRun(
        f"{variant} · {flow_run.name}",
        out.name,
        {"members": ", ".join(facts["run_id"] for facts in trained)},
        {"variant": variant, "dataset": dataset},
        runs.split_datasets(dataset, splits),
    )
    run_id = runs.start_variant_run(runs.parent_run_of(dataset), run)
    model, folders = out / "model", [member / "model" for member in members]
    with runs.finishing_run(run_id):
        ensemble = join([load_model(folder) for folder in folders])
        chosen, scores = _on_validation(ensemble, splits.get("validation"), trained[0])
        model.mkdir()
        save_ensemble(model, folders, chosen)
        join_trained_contexts(model, folders)
        dev = load_split(splits["dev"])
        scores |= _on_dev(out, ensemble, dev, chosen)
        runs.log_scores(run_id, scores)
        runs.log_artifacts(run_id, [out / "predictions.parquet"])
        model_uri = model_logging.log_model(run_id, model, f"bidaf-{dataset}", step=0)
    pairs = _timed_pairs(dev)
    sizes = [folder_bytes(folder) for folder in (*folders, model)]
    milliseconds = [latency(own, pairs) for own in (*ensemble.members, ensemble)]
    return {
        "variant": variant,
        "run_id": run_id,
        "run_url": client.run_url(run_id),
        "model_uri": model_uri,
        "scores": scores,
        "temperature": chosen["temperature"],
        "threshold": chosen["threshold"],
        "bytes": sizes,  # of each member's model, and of the ensemble
        "milliseconds": milliseconds,  # for one question, likewise
    }


def _on_validation(
    ensemble: "Ensemble", folder: Path | None, trained: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, float]]:
    """What validation chooses for the ensemble, as `save_ensemble` writes it, and its scores there.

    `trained` are the facts of the first member's training: an ensemble of models with a threshold
    has one for the same expected share of unanswerable questions.
    """
    from models.predict import TEMPERATURES
    from tasks.evaluation.operating_points import operating_points
    from tasks.evaluation.temperature import best_temperature
    from tasks.inference.score_ensemble import score_split

    chosen: dict[str, Any] = {
        "allow_no_answer": ensemble.threshold < math.inf,
        "temperature": 1.0,
        "threshold": None,
        "operating_points": [],
    }
    if folder is None:
        return chosen, {}
    validation = load_split(folder)
    scored = score_split(ensemble, validation, TEMPERATURES)
    chosen["temperature"] = best_temperature(validation, scored, ensemble.threshold)
    predictions = scored.at(chosen["temperature"])
    scores = {"validation/f1": evaluate(validation, predictions, ensemble.threshold).scores.f1}
    if trained["threshold"] is not None:
        share = trained["expected_no_answer"]
        chosen["threshold"] = best_threshold(validation, predictions, share)
        chosen["operating_points"] = operating_points(validation, predictions)
    return chosen, scores


def _on_dev(
    out: Path, ensemble: "Ensemble", dev: EvaluationSplit, chosen: Mapping[str, Any]
) -> dict[str, float]:
    """The scores on dev, of which the predictions are written."""
    from tasks.inference.score_ensemble import score_split

    predictions = score_split(ensemble, dev, [chosen["temperature"]]).at(chosen["temperature"])
    evaluation = evaluate(dev, predictions, ensemble.threshold)
    write_predictions(out / "predictions.parquet", dev, evaluation)
    scores = evaluation_metrics("dev", evaluation) | no_answer_metrics("dev", dev, predictions)
    if chosen["threshold"] is not None:
        scores |= metrics_at_threshold("dev", dev, predictions, chosen["threshold"])
    return scores


def _timed_pairs(split: EvaluationSplit) -> list[tuple[str, str]]:
    rows = np.flatnonzero(split.has_tokens)[:TIMED_QUESTIONS].tolist()
    return [(split.questions[row], split.context(row)) for row in rows]


def latency(predictor: "Predictor", pairs: Sequence[tuple[str, str]]) -> float:
    """The median time in milliseconds that a model takes for one question at a time."""
    seconds = []
    for pair in pairs:
        start = time.perf_counter()
        predictor.answer([pair])
        seconds.append(time.perf_counter() - start)
    return 1000 * median(seconds)


def folder_bytes(folder: Path) -> int:
    """The size of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
