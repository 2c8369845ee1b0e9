"""All steps of the pipeline as stages, which are cached Prefect tasks."""

from infra.artifacts.manifest import facts_of, read_manifest
from infra.artifacts.stage import Stage
from tasks.data import ingest, splits
from tasks.datasets import fetch, tiny
from tasks.embeddings.contextual.select_bilm import copy_bilm, select_bilm
from tasks.embeddings.contextual.stored_layers import write_layers
from tasks.embeddings.evaluation.evaluate import evaluate_vectors
from tasks.embeddings.evaluation.evaluate_contextual import evaluate_bilm
from tasks.embeddings.formats.select import vectors_for_splits
from tasks.embeddings.training import corpus, train
from tasks.embeddings.training.encode_corpus import encode_corpus
from tasks.inference.answer_files import answer_files
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
from tasks.training.build_ensemble import build_ensemble
from tasks.training.train_language_model import train_language_model
from tasks.training.train_variant import train_variant

generate_stage = Stage(tiny.write_tiny, "generate-tiny")
fetch_stage = Stage(fetch.fetch, "fetch", label=lambda inputs: inputs["source"].name)
fetch_remote_stage = Stage(
    fetch.fetch, "fetch-remote-file", label=lambda inputs: inputs["source"].name
)
ingest_stage = Stage(ingest.ingest_file, "ingest", label=lambda inputs: inputs["file"].name)
split_stage = Stage(splits.write_split, "split", label=lambda inputs: inputs["part"])
select_vectors_stage = Stage(vectors_for_splits, "select-vectors")
vocabulary_stage = Stage(build_vocabulary.build_vocabulary, "build-vocabulary")
prepare_corpus_stage = Stage(corpus.prepare_corpus, "prepare-corpus")
evaluate_vectors_stage = Stage(evaluate_vectors, "evaluate-embeddings")
evaluate_bilm_stage = Stage(evaluate_bilm, "evaluate-language-model")
embeddings_report_stage = Stage(embeddings_report.write_embeddings_report, "embeddings-report")
train_vectors_stage = Stage(train.train_vectors, "train-embeddings")
encode_corpus_stage = Stage(encode_corpus, "encode-corpus")
train_bilm_stage = Stage(train_language_model, "train-language-model")
copy_bilm_stage = Stage(copy_bilm, "copy-language-model")
select_bilm_stage = Stage(select_bilm, "select-language-model")
compute_layers_stage = Stage(write_layers, "compute-layers")
encode_stage = Stage(
    encode.encode_split,
    "encode",
    label=lambda inputs: str(read_manifest(inputs["split"])["inputs"]["part"]),
)
fetch_model_stage = Stage(fetch_model, "fetch-model")
train_stage = Stage(
    train_variant,
    "train",
    label=lambda inputs: f"{inputs['variant'].name} · seed {inputs['variant'].training.seed}",
)
ensemble_stage = Stage(build_ensemble, "ensemble", label=lambda inputs: inputs["dataset"])
score_stage = Stage(
    score_registered,
    "score",
    label=lambda inputs: trained_variant(inputs["model_id"]),
)
answer_stage = Stage(answer_files, "answer", label=lambda inputs: inputs["name"])
compare_stage = Stage(comparison.compare, "compare")
check_stage = Stage(data_report.write_data_report, "check")
report_stage = Stage(training_report.report_variants, "report")
error_report_stage = Stage(
    error_report.report_errors,
    "error-report",
    label=lambda inputs: facts_of(inputs["trained"])["variant"],
)
