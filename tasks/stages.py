"""All steps of the pipeline as stages, which are cached Prefect tasks."""

from infra.artifacts.manifest import facts_of, read_manifest
from infra.artifacts.stage import Stage
from infra.settings import settings
from tasks.data import ingest, splits
from tasks.datasets import fetch, tiny
from tasks.embeddings.contextual.encode_corpus import encode_corpus
from tasks.embeddings.contextual.select_bilm import copy_bilm, select_bilm
from tasks.embeddings.contextual.stored_layers import write_layers
from tasks.embeddings.evaluation.evaluate import evaluate_vectors
from tasks.embeddings.evaluation.evaluate_contextual import evaluate_bilm
from tasks.embeddings.formats.select import vectors_for_splits
from tasks.embeddings.training import corpus, train
from tasks.inference.score_model import score_registered
from tasks.reports import (
    comparison,
    data_report,
    embeddings_report,
    error_report,
    training_report,
)
from tasks.text import build_vocabulary, encode
from tasks.tracking.registry import fetch_model, trained_variant
from tasks.training.train_language_model import train_language_model
from tasks.training.train_variant import train_variant

generating = Stage(tiny.write_tiny, "generate-tiny")
fetching = Stage(fetch.fetch, "fetch", label=lambda inputs: inputs["source"].name)
fetching_remote_file = Stage(
    fetch.fetch, "fetch-remote-file", label=lambda inputs: inputs["source"].name
)
ingesting = Stage(ingest.ingest_file, "ingest", label=lambda inputs: inputs["file"].name)
splitting = Stage(splits.write_split, "split", label=lambda inputs: inputs["part"])
selecting_vectors = Stage(vectors_for_splits, "select-vectors")
building_vocabulary = Stage(build_vocabulary.build_vocabulary, "build-vocabulary")
preparing_corpus = Stage(corpus.prepare_corpus, "prepare-corpus")
evaluating_vectors = Stage(evaluate_vectors, "evaluate-embeddings")
evaluating_bilm = Stage(evaluate_bilm, "evaluate-language-model")
reporting_embeddings = Stage(embeddings_report.write_embeddings_report, "embeddings-report")
training_vectors = Stage(train.train_vectors, "train-embeddings")
encoding_corpus = Stage(encode_corpus, "encode-corpus")
training_language_model = Stage(train_language_model, "train-language-model")
copying_bilm = Stage(copy_bilm, "copy-language-model")
selecting_bilm = Stage(select_bilm, "select-language-model")
computing_layers = Stage(write_layers, "compute-layers")
encoding = Stage(
    encode.encode_split,
    "encode",
    label=lambda inputs: str(read_manifest(inputs["split"])["inputs"]["part"]),
)
fetching_model = Stage(fetch_model, "fetch-model")
training = Stage(
    train_variant,
    "train",
    label=lambda inputs: f"{inputs['variant'].name} · seed {inputs['variant'].training.seed}",
)
scoring = Stage(
    score_registered,
    "score",
    label=lambda inputs: trained_variant(settings().tracking_uri, inputs["model_id"]),
)
comparing = Stage(comparison.compare, "compare")
checking = Stage(data_report.write_data_report, "check")
reporting = Stage(training_report.report_variants, "report")
reporting_errors = Stage(
    error_report.report_errors,
    "error-report",
    label=lambda inputs: facts_of(inputs["trained"])["variant"],
)
