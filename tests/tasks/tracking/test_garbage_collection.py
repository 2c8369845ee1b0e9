"""Retention and garbage collection with real stages, a real MLflow store and concurrent flows."""

import os
import shutil
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.tracking import MlflowClient
from prefect.settings import PREFECT_API_URL, PREFECT_LOCAL_STORAGE_PATH

from flows.commands.maintenance import prune_data
from infra.artifacts.locks import lock_file, shared_lock
from infra.artifacts.manifest import read_manifest
from infra.artifacts.stage import Stage
from infra.errors import UserError
from infra.settings import CHECKOUT, settings
from tasks.tracking import garbage_collection, model_logging, registry, runs
from tasks.tracking.client import mlflow_client
from tasks.tracking.garbage_collection import erase_deleted, find_garbage, prune, retire
from tasks.tracking.lineage import recorded_runs
from tests.factories.logged_models import save_untrained_model
from tests.factories.stages import Trained, counting, in_flow, reading, train, trained
from tests.factories.tracking_store import parent_run
from tests.factories.trees import tree_digests

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("prefect_server", "recorded")]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database without runs; creating one takes seconds."""
    file = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(f"sqlite:///{file}").search_experiments()
    return file


@pytest.fixture
def recorded(root: Path, database: Path) -> None:
    shutil.copyfile(database, root / "mlflow.db")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    (tmp_path / "a.txt").write_text(f"one two two three three three {tmp_path}")
    return [tmp_path / "a.txt"]


@pytest.fixture
def two(files: list[Path]) -> tuple[Trained, Trained]:
    """Two runs over the same words; the second belongs to the flow's newest run."""
    return trained(files, 1), trained(files, 2)


def pruned() -> set[Path]:
    """Prune; returns the removed folders."""
    expected = {item.path for item in find_garbage() if not item.in_use}
    removed = {item.path for item in prune()}
    assert removed == expected
    assert not any(folder.exists() for folder in removed)
    return removed


def forget(training: Trained) -> None:
    mlflow_client().delete_run(training.run_id)


def test_copied_root_is_pruned_alone(
    two: tuple[Trained, Trained], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = settings().root
    copy = original.with_name("copy")
    shutil.copytree(original, copy)
    before = tree_digests(original)
    monkeypatch.setenv("BIDAFLOW_ROOT", str(copy))
    forget(two[0])
    assert pruned() == {copy / path.relative_to(original) for path in (two[0].counts, two[0].model)}
    assert tree_digests(original) == before


def test_removes_only_stages_of_the_deleted_run(
    two: tuple[Trained, Trained],
    files: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    first, second = two
    forget(first)
    results = PREFECT_LOCAL_STORAGE_PATH.value()
    assert (results / first.model.name).exists()
    prune_data()
    listed = capsys.readouterr().out
    assert f"train/{first.model.name}" in listed and "total: 2" in listed
    assert pruned() == {first.counts, first.model}
    prune_data(yes=True)
    assert capsys.readouterr().out.startswith("Nothing to prune")
    assert not (results / first.model.name).exists()
    assert second.words.exists() and second.counts.exists() and second.model.exists()
    assert trained(files, 1).model == first.model
    assert (first.model / "model.json").exists()


def test_keeps_stages_of_the_newest_flow_run(
    two: tuple[Trained, Trained], files: list[Path]
) -> None:
    forget(two[1])
    assert pruned() == set()
    other = in_flow(lambda: reading([*files, *files]).folder, "another flow")
    assert pruned() == set()
    in_flow(lambda: reading(files), "another flow")
    assert pruned() == {other}


def test_keeps_inputs_of_unfinished_runs(two: tuple[Trained, Trained]) -> None:
    first = two[0]
    for training in two:
        forget(training)
    in_flow(lambda: None, "words")  # now the flow's newest run, which used no stage
    parent = parent_run("another", "words")
    tags = {"train.digest": read_manifest(first.words)["digest"]}
    run_id = runs.start_variant_run(parent, runs.VariantRun("char", "key", {}, tags, []))
    for status in ("RUNNING", "FAILED", "KILLED"):
        mlflow_client().update_run(run_id, status=status)
        assert pruned().isdisjoint({first.words, first.counts})
    runs.finish(run_id, "FINISHED")
    assert {first.words, first.counts} <= pruned()


def test_keeps_stages_in_use_until_the_flow_ends(two: tuple[Trained, Trained]) -> None:
    first = two[0]
    forget(first)

    def prune_while_in_use() -> set[Path]:
        counting(first.words, 1)
        return pruned()

    assert in_flow(prune_while_in_use, "user") == {first.model}
    in_flow(lambda: reading([]), "user")
    assert pruned() == {first.counts}


def test_removes_leftovers_of_killed_runs(root: Path) -> None:
    broken = root / "stages" / "count" / ".building-k1" / "k1"
    half = root / "stages" / "count" / ".pruned-k2"
    ended, running, finished = (root / "ray" / key for key in ("k3", "k4", "k5"))
    for folder in (broken, half, ended, running, finished):
        folder.mkdir(parents=True)
    (root / "ray" / "k4.fault").touch()
    client = mlflow_client()
    client.create_run("0", tags={"bidaflow.stage": "k4"})
    run = client.create_run("0", tags={"bidaflow.stage": "k5"})
    client.set_terminated(run.info.run_id)
    with shared_lock(lock_file(half.with_name("k2"), "use")):
        assert pruned() == {broken.parent, ended}, "another process may be removing it"
    assert pruned() == {half}
    assert running.exists() and finished.exists()
    assert [item.path for item in prune(checkpoints=True)] == [finished]


def test_removes_checkpoints_of_language_models(root: Path, files: list[Path]) -> None:
    training = Stage(train, "train-language-model", code="infra.errors")
    words = in_flow(lambda: reading(files).folder, "words")
    counts = in_flow(lambda: counting(words, 1).folder, "words")
    final = in_flow(lambda: training(words, counts).folder, "words")
    ended, building = (root / "ray" / key for key in (final.name, "k6"))
    begun = final.with_name(".building-k6") / "k6"
    for folder in (ended, building, begun):
        folder.mkdir(parents=True)
    with shared_lock(lock_file(final.with_name("k6"), "build")):
        assert ended in pruned() and building.exists(), "no run has the key k6, but it is built"
    assert {building, begun.parent} <= pruned()


def test_removes_only_old_unused_downloads(root: Path) -> None:
    downloads = root / "downloads"
    downloads.mkdir()
    names = ("old.json", "old.json.validator", "new.json", "held.json")
    old, validator, new, held = (downloads / name for name in names)
    for file in (old, validator, new, held):
        file.write_text("half")
        if file != new:
            os.utime(file, (1e9, 1e9))
    with shared_lock(downloads / "held.json.lock"):
        assert pruned() == {old, validator}
    assert new.exists() and held.exists()


BUILDING = """
import sys, time
from pathlib import Path
from prefect import flow
from infra.artifacts.stage import Stage

def build(out):
    (out / "half.txt").write_text("half of it")
    print("building", flush=True)
    sys.stdin.read()
    return {}

flow(lambda: Stage(build, "slow", code="infra.errors")(), name="slow")()
"""


@pytest.mark.heavy
def test_keeps_running_builds_and_removes_killed_ones(root: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", BUILDING],
        cwd=CHECKOUT,
        env={**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value() or ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "building\n"
        assert pruned() == set()
        (building,) = (root / "stages" / "slow").iterdir()
        os.kill(process.pid, signal.SIGKILL)
    assert pruned() == {building}


def test_rejects_a_store_without_the_trainings(
    two: tuple[Trained, Trained],
    tmp_path: Path,
    database: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other, missing = tmp_path / "other.db", tmp_path / "missing.db"
    shutil.copyfile(database, other)
    for store, command in product((other, missing), (find_garbage, prune)):
        monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", f"sqlite:///{store}")
        with pytest.raises(UserError, match=r"None of the 2 trainings .* is recorded"):
            command()
    assert not missing.exists()
    assert all(training.model.exists() for training in two)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_untrained_model(tmp_path_factory.mktemp("model"))


def flow_run_with_model(number: int, model: Path) -> str:
    """Record a flow run with one trained variant; returns the URI of its model."""
    name = f"flow-{number}"
    parent = parent_run(name)
    run = runs.VariantRun(f"variant-{number}", name, {}, {}, [])
    variant = runs.start_variant_run(parent, run)
    model_uri = model_logging.log_model(variant, model, "bidaf-made", step=0)
    for run in (variant, parent):
        runs.finish(run, "FINISHED")
    return model_uri


def test_keeps_newest_runs_and_aliased_models(model: Path) -> None:
    models = [flow_run_with_model(number, model) for number in range(4)]
    registry.set_champion(registry.find_version(models[0]))
    retired = retire("bidaflow/made", keep=2)
    assert {run.name for run in retired} == {"flow-1", "variant-1"}
    kept = {run.name for run in recorded_runs()}
    assert kept == {f"{kind}-{i}" for kind in ("flow", "variant") for i in (0, 2, 3)}
    versions = mlflow_client().search_model_versions("name = 'bidaf-made'")
    assert sorted(int(version.version) for version in versions) == [1, 3, 4]
    assert retire("bidaflow/made", keep=2) == []
    assert retire("bidaflow/made", keep=1, kept_stages={"train/flow-2"}) == []


def test_retention_at_an_address_keeps_new_runs(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their trainings stay in the store, and must not lose their models."""
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", settings().tracking_uri)
    monkeypatch.setenv("BIDAFLOW_ROOT", "s3://results/team")
    monkeypatch.setenv("BIDAFLOW_CACHE", str(tmp_path / "cache"))
    for number in range(2):
        flow_run_with_model(number, model)
    assert retire("bidaflow/made", keep=1) == []
    monkeypatch.setenv("BIDAFLOW_TIME_LIMIT_HOURS", "1e-9")
    assert {run.name for run in retire("bidaflow/made", keep=1)} == {"flow-0", "variant-0"}


def test_retention_keeps_what_is_promoted_meanwhile(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [flow_run_with_model(number, model) for number in range(3)]
    before = recorded_runs()
    registry.set_champion(registry.find_version(models[0]))
    monkeypatch.setattr(garbage_collection, "recorded_runs", lambda: before)
    assert {run.name for run in retire("bidaflow/made", keep=1)} == {"flow-1", "variant-1"}
    assert registry.find("bidaf-made", registry.CHAMPION) is not None


def test_retention_keeps_runs_that_a_flow_run_uses(model: Path, root: Path) -> None:
    for number in range(2):
        flow_run_with_model(number, model)
    with shared_lock(lock_file(root / "stages" / "train" / "flow-0", "use")):
        assert retire("bidaflow/made", keep=1) == []
    assert {run.name for run in retire("bidaflow/made", keep=1)} == {"flow-0", "variant-0"}


def test_next_retention_completes_a_killed_one(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        flow_run_with_model(number, model)

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    for step in ("delete_logged_model", "delete_run"):
        with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
            killed.setattr(SqlAlchemyStore, step, kill)
            retire("bidaflow/made", keep=1)
    retire("bidaflow/made", keep=1)
    assert {run.name for run in recorded_runs()} == {"flow-1", "variant-1"}


def test_failure_of_mlflow_to_erase_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(UserError, match=r"could not erase .* \(exit status 1\)\. The rest is"):
        erase_deleted()


def test_deleted_runs_are_erased_after_days(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        flow_run_with_model(number, model)
    retire("bidaflow/made", keep=1)
    artifacts = settings().root / "mlartifacts"
    prune()
    assert len(list(artifacts.rglob("MLmodel"))) == 2, "the deletion can be undone"
    monkeypatch.setattr(garbage_collection, "KEPT_DAYS", 0)
    prune()
    assert len(list(artifacts.rglob("MLmodel"))) == 1
    left = {run.name for run in recorded_runs(include_deleted=True)}
    assert left == {"flow-1", "variant-1"}
