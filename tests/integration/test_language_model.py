"""The flow that trains ELMo's language model: the file, its lineage, and a warm start."""

from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from flows.common.parameters import CorpusParameters
from flows.train_embeddings import announce, train_embeddings
from infra.artifacts.manifest import sha256_of
from infra.artifacts.stage import result_of
from infra.cluster.allotment import Resources
from infra.settings import settings
from tasks.embeddings.contextual.bilm_file import load_bilm
from tasks.embeddings.training.config import ElmoSettings, EmbeddingParameters
from tests.factories.corpus import shuffled_topics

ELMO = ElmoSettings(preset="filters-128", batch_size=8, window=10)


@pytest.mark.heavy
@pytest.mark.full
def test_model_is_trained_reused_and_continued(
    root: Path,
    prefect_server: None,
    ray_cluster: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(" ".join(line) for line in shuffled_topics(400)))
    parameters: Any = {
        "corpus": CorpusParameters(files=[str(file)]),
        "embedding": EmbeddingParameters(method="elmo", elmo=ELMO),
        "resources": Resources(cpus_per_worker=1),
    }
    facts = result_of(
        train_embeddings(**parameters, name="first", evaluate_on="tiny", return_state=True)
    )
    assert Path(facts["report"]).name == "vectors-first-glove-6b-50d-on-tiny.html"
    assert facts["files"] == [str(root / "embeddings" / "first" / "bilm.safetensors")]
    trained = load_bilm(Path(facts["files"][0]))
    assert (trained.history["method"], trained.history["lower_case"]) == ("elmo", True)
    first, last = facts["history"]
    assert last["held_out/perplexity_mean"] < first["held_out/perplexity_mean"] < 100
    assert not list((root / "ray").iterdir()), "checkpoints are removed"

    client = MlflowClient(settings().tracking_uri)
    run = client.get_run(facts["run_id"])
    assert run.info.status == "FINISHED" and run.data.params["elmo.preset"] == "filters-128"
    assert client.get_run(run.data.tags["mlflow.parentRunId"]).info.status == "FINISHED"
    assert run.data.metrics["held_out/perplexity_mean"] == pytest.approx(
        last["held_out/perplexity_mean"], abs=1e-3
    )
    assert run.inputs.dataset_inputs[0].dataset.name == "corpus"

    again = result_of(train_embeddings(**parameters, name="first", return_state=True))
    assert again["cached"] and not facts["cached"]
    announce(again)
    assert "held-out words: forward" in capsys.readouterr().out

    kept = EmbeddingParameters(method="elmo", elmo=ElmoSettings(batch_size=8, window=10))
    parameters |= {"start": "first", "name": "second", "embedding": kept}
    second = result_of(train_embeddings(**parameters, return_state=True))
    assert second["history"][0]["step"] == 0
    assert second["history"][0]["held_out/perplexity_mean"] == pytest.approx(
        last["held_out/perplexity_mean"], rel=1e-3
    )
    continued = load_bilm(Path(second["files"][0]))
    assert continued.words == trained.words
    assert continued.history["parameters"]["words"] == len(trained.words)
    params = client.get_run(second["run_id"]).data.params
    assert "elmo.preset" not in params and params["sizes.hidden_size"] == "128"
    assert continued.history["start"] == sha256_of(Path(facts["files"][0]))
