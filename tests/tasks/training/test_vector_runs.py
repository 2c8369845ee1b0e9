"""Runs of trained word vectors in MLflow."""

import shutil
from pathlib import Path

from mlflow.tracking import MlflowClient

from flows.common.parameters import CorpusParameters
from flows.common.vectors import train_from_corpus
from infra.artifacts.manifest import content_digest
from infra.settings import settings
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.training.vector_runs import log_trained_vectors
from tests.factories.corpus import two_topic_sentences
from tests.factories.stages import finished, in_flow


def test_run_is_logged_without_the_corpus(root: Path, prefect_server: None, tmp_path: Path) -> None:
    """Another machine may have prepared the corpus from another file with the same words."""
    text = tmp_path / "domain.txt"
    text.write_text("\n".join(" ".join(line) for line in two_topic_sentences(60)), encoding="utf-8")
    embedding = EmbeddingParameters(method="cbow", dimension=8, min_count=2, epochs=1, workers=1)

    def work() -> str:
        trained = train_from_corpus(CorpusParameters(files=[str(text)]), embedding, None)
        (corpus,) = finished(root, "prepare-corpus")
        digest = content_digest(corpus)
        shutil.rmtree(corpus)
        log_trained_vectors("domain", trained.folder)
        return digest

    digest = in_flow(work, "train")
    client = MlflowClient(settings().tracking_uri)
    experiment = client.get_experiment_by_name("bidaflow/embeddings")
    (run,) = client.search_runs([experiment.experiment_id], "tags.`bidaflow.role` = 'variant'")
    assert run.data.tags["corpus.digest"] == digest
    (corpus,) = run.inputs.dataset_inputs
    assert digest.startswith(corpus.dataset.digest) and corpus.dataset.name == "corpus"
