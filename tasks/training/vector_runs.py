"""Logs trained sets of word vectors to MLflow."""

from pathlib import Path

from infra.artifacts.manifest import identity, read_manifest, stages_folder
from tasks.datasets.catalog import EMBEDDINGS
from tasks.embeddings.formats.source import VECTORS, stage_input
from tasks.embeddings.formats.store import history_of, set_digest
from tasks.tracking import runs
from tasks.tracking.lineage import recorded_runs
from tasks.training.run_params import making_of


def log_trained_vectors(name: str, trained: Path) -> None:
    """Log a run of a trained set, the folder of its stage, unless there is one: its parameters, its
    corpus, and its losses."""
    if any(run.stage == trained.name and run.status == "FINISHED" for run in recorded_runs()):
        return
    manifest, vectors = read_manifest(trained), trained / VECTORS
    facts = manifest["facts"]
    origin = next(origin for origin in manifest["made_from"] if origin["input"] == "corpus")
    # From the run that trained the set: this one may have made an equal corpus with another key.
    corpus = stages_folder() / origin["stage"] / origin["key"]
    config = {
        "words": facts["words"],
        "vectors": {"dimension": facts["dimension"], **making_of(history_of(vectors))},
        "corpus": facts["corpus"],
    }
    tags = {
        "vectors.digest": set_digest(identity(stage_input(vectors))),
        "corpus.digest": origin["digest"],
    }
    parent = runs.parent_run_of(EMBEDDINGS)
    datasets = [runs.corpus_dataset(corpus, origin["digest"])]
    run = runs.VariantRun(name, trained.name, config, tags, datasets)
    run_id = runs.start_variant_run(parent, run)
    for epoch, loss in enumerate(facts["losses"], 1):
        runs.log_scores(run_id, {"train/loss": loss}, step=epoch)
    for ended in (run_id, parent):
        runs.finish(ended, "FINISHED")
