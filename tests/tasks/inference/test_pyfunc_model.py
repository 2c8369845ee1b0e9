"""The logged and registered model, loaded and served without a checkout."""

import ast
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import grimp
import mlflow.pyfunc
import pytest
from mlflow.entities import LoggedModel
from mlflow.tracking import MlflowClient

from infra.settings import CHECKOUT
from tasks.inference.predictor import AnswerRow, Predictor
from tasks.tracking import metric_logger, model_logging, runs
from tests.factories.logged_models import CONTEXT, MODEL_INPUT, save_untrained_model, wait_for
from tests.factories.ports import free_port
from tests.factories.tracking_store import parent_run, recording_at


@pytest.fixture(autouse=True)
def import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undoes what MLflow prepends to `sys.path` when it loads a model."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_untrained_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with recording_at(f"sqlite:///{tmp_path_factory.mktemp('root')}/mlflow.db") as uri:
        yield uri


@pytest.fixture(scope="module")
def run_id(uri: str) -> str:
    """A variant's run with the metrics of two epochs."""
    parent = parent_run("flow")
    tags = {"variant": "made", "dataset.digest": "ab" * 32}
    run = runs.VariantRun("made", "key", {"seed": 1}, tags, [])
    run_id = runs.start_variant_run(parent, run)
    logger = metric_logger.EpochLogger(uri, run_id)
    logger.epoch(9, {"dev/f1": 60.0})
    logger.epoch(19, {"dev/f1": 50.0})
    return run_id


@pytest.fixture(scope="module")
def model_uri(uri: str, run_id: str, model_folder: Path) -> str:
    return model_logging.log_model(run_id, model_folder, "bidaf-made", step=9)


@pytest.fixture(scope="module")
def artifact(uri: str, model_uri: str) -> Path:
    """The folder in which MLflow keeps the logged model."""
    return Path(logged_model(uri, model_uri).artifact_location.removeprefix("file://"))


def logged_model(uri: str, model_uri: str) -> LoggedModel:
    client = MlflowClient(uri)
    _, name, number = model_uri.split("/")
    return client.get_logged_model(client.get_model_version(name, number).source.split("/")[-1])


def expected(model_folder: Path) -> list[dict[str, Any]]:
    pairs = [(row["question"], row["context"]) for row in MODEL_INPUT]
    return [dict(row) for row in Predictor.load(model_folder).answer(pairs)]


def outside(folder: Path) -> dict[str, str]:
    """Environment variables that do not refer to the checkout."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "MLFLOW_TRACKING"))}
    return kept | {"OMP_NUM_THREADS": "1", "MLFLOW_DISABLE_TELEMETRY": "true", "HOME": str(folder)}


def test_version_has_run_tags_and_step_metrics(uri: str, run_id: str, model_uri: str) -> None:
    client = MlflowClient(uri)
    assert model_uri == "models:/bidaf-made/1"
    registered = client.get_model_version("bidaf-made", "1")
    assert registered.run_id == run_id
    assert registered.tags["variant"] == "made"
    logged = logged_model(uri, model_uri)
    assert json.loads(logged.tags["mlflow.modelVersions"]) == [
        {"name": "bidaf-made", "version": registered.version}
    ]
    assert logged.experiment_id == client.get_run(run_id).info.experiment_id
    assert logged.params == {"seed": "1"}
    assert [(m.key, m.value, m.step) for m in logged.metrics] == [("dev/f1", 60.0, 9)]
    assert client.get_registered_model("bidaf-made").aliases == {}


def test_retry_registers_no_second_version(
    uri: str, run_id: str, model_uri: str, model_folder: Path
) -> None:
    assert model_logging.log_model(run_id, model_folder, "bidaf-made", step=9) == model_uri


def test_artifact_has_no_pickle_and_pypi_requirements(artifact: Path) -> None:
    suffixes = {file.suffix for file in artifact.rglob("*") if file.is_file()}
    assert not suffixes & {".pkl", ".pickle", ".pt", ".bin", ".pyc"}
    requirements = (artifact / "requirements.txt").read_text().split()
    assert f"mlflow=={mlflow.__version__}" in requirements
    assert not any("+" in requirement for requirement in requirements)


OWN = ("infra", "models", "tasks")
"""The packages whose code is logged with a model."""


def is_own(name: str) -> bool:
    """Whether a module belongs to one of these packages."""
    return name.partition(".")[0] in OWN


def test_requirements_match_the_imported_packages() -> None:
    graph = grimp.build_graph(*OWN, include_external_packages=True, cache_dir=None)
    reached = graph.find_upstream_modules("tasks.inference.pyfunc_model")
    outside = {name for name in reached if not is_own(name)}
    outside -= set(sys.stdlib_module_names)
    assert outside == set(model_logging.INFERENCE_PACKAGES)


def test_inference_code_imports_nothing_when_it_runs() -> None:
    """`pyfunc_model` takes the model's modules out of `sys.modules` once they are imported."""
    graph = grimp.build_graph(*OWN, exclude_type_checking_imports=True, cache_dir=None)
    for module in graph.find_upstream_modules("tasks.inference.predictor"):
        path = CHECKOUT / module.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        functions = [
            node
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.FunctionDef)
        ]
        imports = [
            ast.unparse(node)
            for function in functions
            for node in ast.walk(function)
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        assert not [line for line in imports if is_own(line.split()[1])], file


def test_loaded_model_answers_like_the_folder(uri: str, model_uri: str, model_folder: Path) -> None:
    mlflow.set_tracking_uri(uri)
    model = mlflow.pyfunc.load_model(model_uri)
    assert model.predict(MODEL_INPUT) == expected(model_folder)
    assert model.predict([]) == []


def own_modules() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if is_own(name)}


def code_of(model: mlflow.pyfunc.PyFuncModel) -> str:
    """The file of the predictor that a loaded model runs."""
    file: str = model.unwrap_python_model().predictor.answer.__code__.co_filename
    return file


def changed_copy(artifact: Path, folder: Path, reason: str) -> Path:
    """A version of the model whose code gives another reason for an empty question."""
    shutil.copytree(artifact, folder)
    changed = folder / "code/tasks/inference/predictor.py"
    changed.write_text(changed.read_text().replace("is empty.", f"{reason}."))
    return folder


def test_each_version_runs_its_own_code(artifact: Path, model_folder: Path, tmp_path: Path) -> None:
    first = changed_copy(artifact, tmp_path / "first", "has no text")
    second = changed_copy(artifact, tmp_path / "second", "is blank")
    folders = (first, second, first)
    before = own_modules()
    models = [mlflow.pyfunc.load_model(str(folder)) for folder in folders]
    assert own_modules() == before
    for model, folder in zip(models, folders, strict=True):
        assert code_of(model) == str(folder / "code/tasks/inference/predictor.py")
        assert model.predict(MODEL_INPUT) == expected(model_folder)
    without_text = [{"question": "", "context": CONTEXT}]
    errors = [model.predict(without_text)[0]["error"].partition(".")[0] for model in models]
    assert errors == ["The question has no text", "The question is blank", errors[0]]


def test_the_same_code_is_not_imported_again(artifact: Path, model_folder: Path) -> None:
    """Otherwise, threads that import modules meanwhile find incomplete ones."""
    before = own_modules()
    model = mlflow.pyfunc.load_model(str(artifact))
    assert own_modules() == before
    assert code_of(model) == str(CHECKOUT / "tasks/inference/predictor.py")
    assert model.predict(MODEL_INPUT) == expected(model_folder)


def test_logging_ignores_other_code_in_the_path(
    uri: str, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the folder of a model that another thread has logged and MLflow is deleting."""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks/__init__.py").write_text("# of another version\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    run_id = parent_run("flow", "beside")
    before = own_modules()
    model_uri = model_logging.log_model(run_id, model_folder, "bidaf-beside", step=0)
    assert own_modules() == before
    assert mlflow.pyfunc.load_model(model_uri).predict(MODEL_INPUT) == expected(model_folder)


def test_other_packages_of_these_names_are_kept(
    artifact: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in own_modules():
        monkeypatch.delitem(sys.modules, name)
    foreign = {name: ModuleType(name) for name in ("models", "models.users")}
    for name, module in foreign.items():
        monkeypatch.setitem(sys.modules, name, module)
    model = mlflow.pyfunc.load_model(str(artifact))
    assert own_modules() == foreign
    assert model.predict(MODEL_INPUT) == expected(model_folder)


def test_rejects_threshold_if_none_was_chosen(uri: str, model_uri: str) -> None:
    mlflow.set_tracking_uri(uri)
    # The error is a `UserError` of the model's own code.
    with pytest.raises(Exception, match="this model has no threshold"):
        mlflow.pyfunc.load_model(model_uri, model_config={"no_answer": "threshold"})


def test_threshold_is_used_on_request(uri: str, model_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    config = json.loads((folder / "config.json").read_text())
    points = [[-1e6, 0, 100], [1e6, 60, 0]]
    config = {**config, "threshold": -1e6, "operating_points": points}
    (folder / "config.json").write_text(json.dumps(config))
    parent = parent_run("flow", "abstaining")
    model_uri = model_logging.log_model(parent, folder, "bidaf-abstaining", step=0)
    mlflow.set_tracking_uri(uri)
    assert all(row["answer"] for row in mlflow.pyfunc.load_model(model_uri).predict(MODEL_INPUT))
    chosen = mlflow.pyfunc.load_model(model_uri, model_config={"no_answer": "threshold"})
    assert [row["answer"] for row in chosen.predict(MODEL_INPUT)] == ["", ""]
    rule = {"no_answer": "threshold", "expected_no_answer": 0.1}
    sure = mlflow.pyfunc.load_model(model_uri, model_config=rule)
    assert all(row["answer"] for row in sure.predict(MODEL_INPUT))


def test_schema_names_every_field(uri: str, model_uri: str) -> None:
    mlflow.set_tracking_uri(uri)
    signature = mlflow.models.get_model_info(model_uri).signature
    (question,), (answer,) = signature.inputs.input_types(), signature.outputs.input_types()
    assert {field.name for field in question.properties} == {"question", "context"}
    assert {field.name for field in answer.properties} == set(AnswerRow.__annotations__)


LOAD_ELSEWHERE = """
import json, sys
import mlflow.pyfunc
model = mlflow.pyfunc.load_model(sys.argv[1])
answers = model.predict(json.loads(sys.argv[2]))
own = ("models", "tasks", "infra", "flows")
code = [m.__file__ for name, m in sys.modules.items() if name.partition(".")[0] in own]
print(json.dumps({"answers": answers, "code": code}))
"""


@pytest.mark.heavy
def test_loads_elsewhere_with_its_own_code(
    artifact: Path, model_folder: Path, tmp_path: Path
) -> None:
    process = subprocess.run(
        [sys.executable, "-P", "-c", LOAD_ELSEWHERE, str(artifact), json.dumps(MODEL_INPUT)],
        cwd=tmp_path,
        env=outside(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    output = json.loads(process.stdout)
    assert output["answers"] == expected(model_folder)
    assert str(artifact / "code/tasks/inference/predictor.py") in output["code"]
    assert all(file.startswith(str(artifact / "code")) for file in output["code"])


@pytest.fixture(scope="module")
def served(artifact: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of `mlflow models serve` with the logged model."""
    folder, url = tmp_path_factory.mktemp("served"), f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-P", "-m", "mlflow", "models", "serve", "--env-manager", "local"]
    command += ["--model-uri", str(artifact), "--port", url.rpartition(":")[2]]
    with (folder / "log").open("w") as log:
        environment = outside(folder) | {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        wait_for(f"{url}/ping", process)
        yield url
    finally:
        process.terminate()
        process.wait(300)


def post(url: str, inputs: Sequence[Mapping[str, str | None]]) -> Any:
    request = urllib.request.Request(
        f"{url}/invocations",
        json.dumps({"inputs": inputs}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=300) as response:
        return json.load(response)


@pytest.mark.heavy
def test_served_model_answers_beside_invalid_items(served: str, model_folder: Path) -> None:
    invalid: list[dict[str, Any]] = [
        {"question": "Where?"},
        {"question": "", "context": CONTEXT},
        {"question": None, "context": CONTEXT},
    ]
    first, *errors, last = post(served, [MODEL_INPUT[0], *invalid, MODEL_INPUT[1]])["predictions"]
    assert [first, last] == expected(model_folder)
    assert [row["error"].partition(".")[0] for row in errors] == [
        "The context is empty",
        "The question is empty",
        "The question is empty",
    ]


@pytest.mark.heavy
def test_served_model_rejects_other_types(served: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as raised:
        post(served, [{"question": 5, "context": CONTEXT}])
    assert raised.value.code == 400
    assert "question" in raised.value.read().decode()
