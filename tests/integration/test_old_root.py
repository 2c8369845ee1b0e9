"""A root of the last release (tests/data/last_release), opened and used by this release."""

import json
import math
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import mlflow.pyfunc
import pytest
import torch
from prefect import flow
from prefect.flows import load_flow_from_entrypoint
from safetensors.torch import load_file, save_file

from flows.common.parameters import DataParameters
from flows.common.promote import PromotionResult, promote_best
from flows.common.splits import ingest_dataset
from infra.artifacts.stage import Output
from infra.settings import CHECKOUT
from tasks.evaluation.promotion_rule import PromotionRule
from tasks.inference.predictor import Predictor
from tasks.tracking import registry, runs
from tasks.tracking.model_logging import log_model
from tests.factories.cli import ONE_WORKER, bidaflow, retrain
from tests.factories.http import send_request
from tests.factories.last_release import LastRelease, unpack_last_release
from tests.factories.services import Services

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1800)]

MODEL = "bidaf-tickets"
CHAMPION = f"models:/{MODEL}@champion"
FLAGS = ("--data.validation-share", "0", "--variants", "char,char-selfattn", *ONE_WORKER)
FLAGS += ("--training.epochs", "1", "--training.hidden-size", "4")
FLAGS += ("--training.characters.embedding-size", "8", "--training.characters.filters", "8")
"""The flags with which the old root's models were trained."""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> LastRelease:
    return unpack_last_release(tmp_path_factory.mktemp("last-release"))


def assert_known_answers(old: LastRelease, answers: Sequence[Any]) -> None:
    """Assert the last release's answers; scores may differ by a processor's rounding (1e-4)."""
    for name in ("answer", "start", "end"):
        assert [row[name] for row in answers] == [row[name] for row in old.answers]
    known = [row["no_answer_probability"] for row in old.answers]
    assert [row["no_answer_probability"] for row in answers] == pytest.approx(known, rel=1e-4)
    known = [row["score"] for row in old.answers]  # the logarithm of today's `probability`
    scores = [row["score"] if "score" in row else math.log(row["probability"]) for row in answers]
    assert scores == pytest.approx(known, rel=1e-4)


def copy_of_champion(old: LastRelease, folder: Path) -> Path:
    champion = registry.with_alias(old.tracking_uri, MODEL, registry.CHAMPION)
    assert champion is not None
    registry.download(old.tracking_uri, champion.model_id, folder)
    return folder


def logged(uri: str, model: Path, registered_name: str) -> str:
    """URI of a model folder, logged by this release in a run named after it."""
    parent = runs.parent_run(uri, "bidaflow/tickets", registered_name, None, "test", {})
    run = runs.VariantRun(model.name, model.name, {}, {}, [])
    run_id = runs.start_variant_run(uri, parent, run)
    return log_model(uri, run_id, model, registered_name, step=0)


@pytest.fixture
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow adds a loaded model's code to the path for the rest of the process."""
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_champion_loads_beside_the_new_packages(old: LastRelease, own_path: None) -> None:
    mlflow.set_tracking_uri(old.tracking_uri)
    assert_known_answers(old, mlflow.pyfunc.load_model(CHAMPION).predict(old.questions))


def test_predictor_reads_the_champion(old: LastRelease, tmp_path: Path) -> None:
    pairs = [(row["question"], row["context"]) for row in old.questions]
    assert_known_answers(
        old, Predictor.load(copy_of_champion(old, tmp_path / "model")).answer(pairs)
    )


def test_moved_root_still_answers(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    old = unpack_last_release(tmp_path / "before")
    moved = tmp_path / "moved"
    old.root.rename(moved)
    question, context = old.questions[0]["question"], old.questions[0]["context"]
    words = ("ask", question, "--context", context, "--dataset", "tickets")
    done = bidaflow(moved, *words)
    assert done.returncode == 0, done.stderr
    assert old.answers[0]["answer"] in done.stdout
    (moved / "mlartifacts").rename(tmp_path / "elsewhere")
    gone = bidaflow(moved, *words)
    assert gone.returncode == 1
    assert f"nor below {moved}/mlartifacts. Move the folder back" in gone.stderr
    assert "Traceback" not in gone.stderr


LOAD_AND_PREDICT = """
import importlib, json, sys
import mlflow.pyfunc
imported, uri, questions, *models = json.loads(sys.argv[1])
for module in imported:
    importlib.import_module(module)
mlflow.set_tracking_uri(uri)
loaded = [mlflow.pyfunc.load_model(model) for model in models]
print(json.dumps([model.predict(questions) for model in loaded]))
"""


def predictions(
    old: LastRelease, models: Sequence[str], folder: Path, imported: Sequence[str] = ()
) -> list[Any]:
    """Answers of models that a fresh process with this working directory loads in this order."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    arguments = json.dumps([imported, old.tracking_uri, old.questions, *models])
    done = subprocess.run(
        [sys.executable, "-c", LOAD_AND_PREDICT, arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    answers: list[Any] = json.loads(done.stdout)
    return answers


@pytest.mark.full
@pytest.mark.parametrize("imported", [["tasks", "models.bidaf"], [], ["tasks"]])
def test_champion_loads_in_the_checkout(old: LastRelease, imported: list[str]) -> None:
    (answers,) = predictions(old, [CHAMPION], CHECKOUT, imported)
    assert_known_answers(old, answers)


@pytest.mark.parametrize("first", ["old", pytest.param("new", marks=pytest.mark.full)])
def test_old_and_new_models_load_together(old: LastRelease, first: str, tmp_path: Path) -> None:
    model = copy_of_champion(old, tmp_path / f"{first}-first")
    new = logged(old.tracking_uri, model, f"bidaf-{first}-first")
    models = [CHAMPION, new] if first == "old" else [new, CHAMPION]
    for answers in predictions(old, models, tmp_path):
        assert_known_answers(old, answers)


def challengers(old: LastRelease, folder: Path) -> dict[str, Path]:
    """A model equal to the champion, and one with random weights, which answers differently."""
    folders = {name: copy_of_champion(old, folder / name) for name in ("equal", "other")}
    weights = load_file(folders["other"] / "weights.safetensors")
    draw = torch.Generator().manual_seed(1)
    drawn = {name: torch.randn(w.shape, generator=draw) for name, w in weights.items()}
    save_file(drawn, folders["other"] / "weights.safetensors")
    return folders


def dev_that_knows(model: Path, old: LastRelease, folder: Path) -> Path:
    """File with the dev questions, and a model's answers as their gold answers."""
    data = json.loads((old.tickets / "dev.json").read_text(encoding="utf-8"))
    predictor = Predictor.load(model)
    for paragraph in (p for article in data["data"] for p in article["paragraphs"]):
        pairs = [(question["question"], paragraph["context"]) for question in paragraph["qas"]]
        for question, row in zip(paragraph["qas"], predictor.answer(pairs), strict=True):
            answer = {"text": row["answer"], "answer_start": row["start"]}
            question["answers"] = [answer] if row["answer"] else []
            question["is_impossible"] = not row["answer"]
    file = folder / "dev.json"
    file.write_text(json.dumps({**data, "version": "v2.0"}), encoding="utf-8")
    return file


def test_champion_stays_until_it_is_beaten(
    prefect_server: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = unpack_last_release(tmp_path)
    monkeypatch.setenv("BIDAFLOW_ROOT", str(old.root))
    models = challengers(old, tmp_path)
    data = DataParameters(
        dataset="tickets",
        train_files=[str(old.tickets / "train.json")],
        dev_files=[str(dev_that_knows(models["other"], old, tmp_path))],
        validation_share=0,
    )

    @flow
    def promote(model: Path) -> PromotionResult:
        model_uri = logged(old.tracking_uri, model, MODEL)
        run_id = registry.find_version(old.tracking_uri, model_uri).run_id
        trained = Output(model, {"model_uri": model_uri, "run_id": run_id}, False)
        return promote_best(ingest_dataset(data), [trained], PromotionRule())

    kept, replaced = promote(models["equal"]), promote(models["other"])
    assert kept.champion is not None and kept.champion.version == "1"
    assert kept.decision is not None and not kept.decision.promoted
    assert replaced.champion == kept.champion
    assert replaced.decision is not None and replaced.decision.promoted
    previous = registry.with_alias(old.tracking_uri, MODEL, registry.PREVIOUS)
    assert previous is not None and previous.version == "1"


@pytest.fixture(scope="module")
def services(old: LastRelease) -> Iterator[Services]:
    """This release's servers, running on the old root."""
    database = old.root / "prefect" / "prefect.db"
    save_parameters(database, "deployment", "train-embeddings", {"judge_on": str(old.tickets)})
    save_parameters(database, "deployment", "judge-tickets", {"look": {"words": ["mill"]}})
    save_parameters(database, "flow_run", "new-year-2099", {"look": {"words": ["inn"]}})
    services = Services(old.root)
    services.up()
    try:
        yield services
    finally:
        services.clean_up()


def save_parameters(database: Path, table: str, name: str, parameters: dict[str, Any]) -> None:
    """Add parameters to those of a deployment or a flow run on a stopped Prefect server."""
    with closing(sqlite3.connect(database)) as connection, connection:
        (saved,) = connection.execute(
            f"SELECT parameters FROM {table} WHERE name = ?", (name,)
        ).fetchone()
        connection.execute(
            f"UPDATE {table} SET parameters = ? WHERE name = ?",
            (json.dumps({**json.loads(saved), **parameters}), name),
        )


@pytest.fixture(scope="module")
def deployments(services: Services) -> dict[str, dict[str, Any]]:
    url = f"{services.record.prefect_url}/api/deployments/filter"
    deployments = send_request("POST", url, {}).json()
    return {deployment["name"]: deployment for deployment in deployments}


def schedules_of(deployment: dict[str, Any]) -> dict[str | None, dict[str, Any]]:
    return {schedule["slug"]: schedule for schedule in deployment["schedules"]}


@pytest.mark.full
def test_up_removes_the_renamed_deployment(deployments: dict[str, dict[str, Any]]) -> None:
    assert "judge-embeddings" not in deployments
    entrypoint = "flows/evaluate_embeddings.py:evaluate_embeddings"
    assert deployments["evaluate-embeddings"]["entrypoint"] == entrypoint


@pytest.mark.full
def test_up_hands_schedules_and_parameters_over(
    old: LastRelease, deployments: dict[str, dict[str, Any]]
) -> None:
    successor = deployments["evaluate-embeddings"]
    schedules = schedules_of(successor)
    yearly, hourly = schedules["yearly"], schedules[None]
    assert len(successor["schedules"]) == 2
    assert yearly["active"] and not hourly["active"]
    assert yearly["schedule"]["cron"] == "0 4 1 1 *"
    assert yearly["schedule"]["timezone"] == "Europe/London"
    assert yearly["parameters"] == {
        "vectors": [str(old.vectors)],
        "dataset": str(old.tickets),
        "queries": {"words": ["mill"]},
        "lower_case": True,
        "fetch": False,
    }
    assert hourly["schedule"]["interval"] == 3600
    assert successor["parameters"] == {"lower_case": False}


@pytest.mark.full
def test_up_keeps_a_run_scheduled_by_hand(
    services: Services, old: LastRelease, deployments: dict[str, dict[str, Any]]
) -> None:
    filters = {"flow_runs": {"name": {"any_": ["new-year-2099"]}}}
    url = f"{services.record.prefect_url}/api/flow_runs/filter"
    (run,) = send_request("POST", url, filters).json()
    assert run["deployment_id"] == deployments["evaluate-embeddings"]["id"]
    assert run["state_type"] == "SCHEDULED"
    assert run["expected_start_time"].startswith("2099-01-01T00:00:00")
    assert run["parameters"] == {
        "vectors": [str(old.vectors)],
        "lower_case": False,
        "queries": {"words": ["inn"]},
    }


@pytest.mark.full
def test_up_keeps_a_duplicate_made_in_the_ui(
    old: LastRelease, deployments: dict[str, dict[str, Any]]
) -> None:
    duplicate = deployments["judge-tickets"]
    assert duplicate["entrypoint"] == deployments["evaluate-embeddings"]["entrypoint"]
    assert duplicate["parameters"] == {
        "dataset": str(old.tickets),
        "queries": {"words": ["mill"]},
    }


@pytest.mark.full
def test_up_renames_saved_parameters(
    old: LastRelease, deployments: dict[str, dict[str, Any]]
) -> None:
    assert deployments["train-embeddings"]["parameters"] == {"evaluate_on": str(old.tickets)}


@pytest.mark.full
def test_up_keeps_what_was_edited_in_the_ui(
    old: LastRelease, deployments: dict[str, dict[str, Any]]
) -> None:
    data = {"dataset": str(old.tickets), "validation_share": 0}
    weekly = schedules_of(deployments["retrain"])["weekly"]
    assert len(deployments["retrain"]["schedules"]) == 1
    assert not weekly["active"]
    assert weekly["schedule"]["cron"] == "30 5 * * 2"
    assert weekly["schedule"]["timezone"] == "Asia/Tokyo"
    assert weekly["parameters"]["data"] == data
    assert deployments["train"]["parameters"] == {"variants": ["char"], "data": data}
    assert deployments["ingest"]["paused"]
    assert not deployments["train"]["paused"]


@pytest.mark.full
def test_every_deployment_has_an_entrypoint(deployments: dict[str, dict[str, Any]]) -> None:
    for deployment in deployments.values():
        loaded = load_flow_from_entrypoint(str(CHECKOUT / deployment["entrypoint"]))
        schedules = deployment["schedules"]
        for parameters in (deployment["parameters"], *(s["parameters"] for s in schedules)):
            loaded.validate_parameters(parameters)


@pytest.mark.full
def test_champion_answers_over_the_mlflow_server(
    services: Services, old: LastRelease, own_path: None
) -> None:
    mlflow.set_tracking_uri(services.record.mlflow_url)
    assert_known_answers(old, mlflow.pyfunc.load_model(CHAMPION).predict(old.questions))


@pytest.mark.full
def test_retraining_keeps_the_champion(services: Services, old: LastRelease) -> None:
    sources = ("--data.dataset", str(old.tickets), "--vectors.source", str(old.vectors))
    done = retrain(old.root, *sources, *FLAGS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Version \d+ \([\w-]+\) was not promoted: F1 ", done.stdout)
    champion = registry.with_alias(old.tracking_uri, MODEL, registry.CHAMPION)
    challenger = registry.with_alias(old.tracking_uri, MODEL, registry.CHALLENGER)
    assert champion is not None and champion.version == "1"
    assert challenger is not None and challenger.version in ("3", "4")
