"""What a training checks before it starts, and what its MLflow run shows in the end."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

import models.predict
from infra.errors import UserError
from models.configs.presets import preset
from tasks.inference.trained_contexts import write_trained_contexts
from tasks.tracking import runs
from tasks.tracking.client import mlflow_client
from tasks.training.inputs import TrainingData
from tasks.training.train_variant import (
    count_trained_questions,
    log_kept_epoch,
    require_short_contexts,
    warm_start_facts,
    warn_of_long_texts,
)
from tests.factories.logs import watched_log
from tests.factories.tracking_store import parent_run
from tests.factories.training_data import prepare, save_warm_start, small

HISTORY = [
    {
        "epoch": 1,
        "step": 9,
        "train/nll": 4.0,
        "validation/f1": 61.0,
        "dev/f1": 60.0,
        "dev/nll": 2.0,
    },
    {
        "epoch": 2,
        "step": 18,
        "train/nll": 3.0,
        "validation/f1": 51.0,
        "dev/f1": 50.0,
        "dev/nll": 2.5,
    },
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
    return prepare(tmp_path_factory.mktemp("prepared"), articles=1)


@pytest.mark.parametrize(("kept", "f1"), [(1, 60.0), (2, 50.0)])
def test_latest_scores_are_those_of_the_kept_epoch(
    root: Path, tmp_path: Path, kept: int, f1: float
) -> None:
    run_id = parent_run("flow")
    for entry in HISTORY:
        scores = {name: value for name, value in entry.items() if "/" in name}
        runs.log_scores(run_id, scores, step=int(entry["step"]))
    time.sleep(0.01)  # MLflow orders values of a step by their milliseconds
    (tmp_path / "history.json").write_text(json.dumps(HISTORY), encoding="utf-8")
    log_kept_epoch(run_id, tmp_path, kept)
    client = mlflow_client()
    metrics = client.get_run(run_id).data.metrics
    nll = 2.0 if kept == 1 else 2.5
    assert metrics == {"train/nll": 3.0, "validation/f1": f1 + 1, "dev/f1": f1, "dev/nll": nll}
    shown = [(point.step, point.value) for point in client.get_metric_history(run_id, "dev/f1")]
    assert shown == [(9, 60.0), (18, 50.0), (18, 60.0)][: len(shown)]
    assert len(shown) == (3 if kept == 1 else 2)


def test_contexts_too_long_for_attention_are_refused(
    data: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_short_contexts(data, preset("char-selfattn"))
    monkeypatch.setattr(models.predict, "EVALUATION_PAIRS", 81)  # eight tokens and the null token
    with pytest.raises(
        UserError, match=r"contexts of more than 8 tokens.* training\.window_stride"
    ):
        require_short_contexts(data, preset("char-selfattn"))
    require_short_contexts(data, preset("char-selfattn").with_changes(window_stride=200))
    require_short_contexts(data, preset("char"))


@pytest.mark.parametrize(("limit", "named"), [(1, True), (50, False)])
def test_texts_too_long_to_train_on_are_named(data: TrainingData, limit: int, named: bool) -> None:
    with watched_log("char: 100% of the questions have more than 1 tokens") as logged:
        warn_of_long_texts(data, preset("char").with_changes(max_question_tokens=limit))
    assert logged.is_set() == named


def test_data_without_trainable_questions_are_refused(data: TrainingData) -> None:
    training = preset("char").with_changes(max_context_tokens=3).training
    with pytest.raises(UserError, match="context of at most 3 tokens \\(max_context_tokens\\)"):
        count_trained_questions(data.train.encoded, training)


def test_warm_start_on_evaluation_data_is_recorded(
    data: TrainingData, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    variant = small()
    warm = replace(data, start_from=save_warm_start(tmp_path, variant, data))
    write_trained_contexts(tmp_path / "model", data.train.ingested, None)
    facts, tags = warm_start_facts(variant, warm)
    assert facts.keys() == tags.keys() == {"carried_over"} and not caplog.messages
    write_trained_contexts(tmp_path / "model", data.dev.ingested, None)
    facts, tags = warm_start_facts(variant, warm)
    assert "25 of 25 dev questions" in tags["data_leakage"]
    assert caplog.messages == [facts["data_leakage"]] == [tags["data_leakage"]]
    assert warm_start_facts(variant, data) == ({}, {})
