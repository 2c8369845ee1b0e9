"""The steps of the pipeline as cached Prefect tasks."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from infra.settings import settings
from tasks import error_report, tracking
from tasks.checking import write_check
from tasks.comparison import compare
from tasks.embeddings.corpus import prepare_corpus
from tasks.embeddings.judge import judge_vectors
from tasks.embeddings.judgement_page import write_judgement
from tasks.embeddings.train import train_vectors
from tasks.encoding import encode_split
from tasks.error_report import Run, write_error_report
from tasks.evaluation import load_split
from tasks.fetching import fetch
from tasks.ingestion import ingest_file
from tasks.manifests import facts_of
from tasks.model_files import fetch_model
from tasks.objects import fetch_object
from tasks.outside import scores_outside
from tasks.pages import Template
from tasks.predictions import read_predictions
from tasks.report import TEMPLATE, ReportData, VariantResult, write_report
from tasks.scoring import score_registered
from tasks.sources import generate_tiny
from tasks.splitting import write_split
from tasks.stages import stage
from tasks.training import train_variant
from tasks.vectors import VectorInput, packaged_words, select_vectors
from tasks.vocabulary import build_vocabulary, wanted_words
from tasks.web import fetch_web_file


def vectors_for_splits(
    out: Path,
    source: VectorInput,
    splits: Sequence[Path],
    lower_case: bool,
    keep_first: int,
    spell: bool = False,
) -> dict[str, Any]:
    """Pick the vectors of the splits' words, and the source's first ones for later questions; and
    where models `spell` words by n-grams, these too, which for pre-trained sets are gigabytes."""
    return select_vectors(out, str(source), wanted_words(splits, lower_case), keep_first, spell)


def report_on(
    out: Path,
    dataset: str,
    trained: Sequence[Path],
    train: Path,
    validation: Path | None,
    dev: Path,
    vocabulary: Path,
    template: Template = TEMPLATE,
) -> dict[str, Any]:
    """Write report.html about trained variants, from what their stages left."""
    splits = {"train": train, "validation": validation, "dev": dev}
    data = ReportData(
        dataset=dataset,
        evaluation=dev,
        splits={name: facts_of(folder) for name, folder in splits.items() if folder is not None},
        vocabulary=facts_of(vocabulary),
    )
    results = [_variant_result(folder, dataset) for folder in trained]
    write_report(out / "report.html", results, data, template=template)
    return {}


def report_errors(
    out: Path,
    dataset: str,
    trained: Path,
    dev: Path,
    examples: Sequence[str] = (),
    template: Template = error_report.TEMPLATE,
) -> dict[str, Any]:
    """Write errors.html about a trained variant, and keep a copy with its MLflow run, whose metrics
    then tell of questions with words outside GloVe too: how many there are, EM and F1."""
    facts = facts_of(trained)
    run = Run(dataset, facts["variant"], trained, facts["run_url"])
    write_error_report(out / "errors.html", run, dev, examples, template)
    uri, run_id = settings().tracking_uri, facts["run_id"]
    tracking.log_artifacts(uri, run_id, [out / "errors.html"])
    outside = _scores_outside_glove(trained, dev, facts["variant"])
    tracking.EpochLogger(uri, run_id).epoch(_step_of_epoch(trained, facts["epoch"]), outside)
    return {"variant": facts["variant"], "scores": outside}


def _scores_outside_glove(trained: Path, dev: Path, variant: str) -> dict[str, float]:
    known, split = packaged_words(), load_split(dev)
    if not known:  # its package is not installed
        return {}
    return scores_outside(
        split, read_predictions(trained / "predictions.parquet", split, variant), known
    )


def _step_of_epoch(trained: Path, epoch: int) -> int:
    """The optimisation step at which an epoch of a training ended."""
    history = json.loads((trained / "history.json").read_text(encoding="utf-8"))
    return next(int(entry["step"]) for entry in history if entry["epoch"] == epoch)


def _variant_result(folder: Path, dataset: str) -> VariantResult:
    facts = facts_of(folder)
    return VariantResult(
        name=facts["variant"],
        config=json.loads((folder / "config.json").read_text(encoding="utf-8")),
        history=json.loads((folder / "history.json").read_text(encoding="utf-8")),
        predictions=folder / "predictions.parquet",
        facts={name: facts.get(name) for name in ("parameters", "trained_on")},
        mlflow_run_url=facts["run_url"],
        errors=quote(error_report.place(dataset, facts["variant"])),
        scores=facts["scores"],
        threshold=facts["threshold"],
        no_threshold=facts["no_threshold"],
    )


generating = stage(generate_tiny, "generate-tiny")
fetching = stage(fetch, "fetch")
fetching_object = stage(fetch_object, "fetch-object")
fetching_web_file = stage(fetch_web_file, "fetch-web-file")
ingesting = stage(ingest_file, "ingest")
splitting = stage(write_split, "split")
selecting_vectors = stage(vectors_for_splits, "select-vectors")
building_vocabulary = stage(build_vocabulary, "build-vocabulary")
preparing_corpus = stage(prepare_corpus, "prepare-corpus")
judging_vectors = stage(judge_vectors, "judge-embeddings")
showing_judgement = stage(write_judgement, "judgement-page")
training_vectors = stage(train_vectors, "train-embeddings")
encoding = stage(encode_split, "encode")
fetching_model = stage(fetch_model, "fetch-model")
training = stage(train_variant, "train")
scoring = stage(score_registered, "score")
comparing = stage(compare, "compare")
checking = stage(write_check, "check")
reporting = stage(report_on, "report")
reporting_errors = stage(report_errors, "error-report")
