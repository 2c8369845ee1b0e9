"""Stages in real flow runs: reruns, cache hits, and what an interrupted stage leaves."""

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from prefect import flow
from prefect.settings import PREFECT_API_URL, PREFECT_LOCAL_STORAGE_PATH
from prefect.task_runners import ThreadPoolTaskRunner

from infra.artifacts import stage
from infra.artifacts.locks import exclusive_lock, lock_file
from infra.artifacts.manifest import MANIFEST, content_digest, sha256_of
from infra.artifacts.stage import REFUSED, Output, Stage, source_modules
from infra.errors import RetryableError, UserError
from infra.own_packages import PACKAGES
from infra.settings import CHECKOUT
from tests.factories.services import wait

pytestmark = pytest.mark.usefixtures("prefect_server", "root")

T = TypeVar("T")

RUNS: list[str] = []
"""Names of the functions below that have run, in order."""


def shout(out: Path, text: str, marks: int = 1) -> dict[str, Any]:
    RUNS.append("shout")
    (out / "text.txt").write_text(text.upper() + "!" * marks, encoding="utf-8")
    return {"characters": len(text) + marks}


def measure(out: Path, texts: list[Path]) -> dict[str, Any]:
    RUNS.append("measure")
    files = [text / "text.txt" if text.is_dir() else text for text in texts]
    (out / "lengths.json").write_text(json.dumps([len(file.read_text()) for file in files]))
    return {}


def break_off(out: Path, error: str) -> dict[str, Any]:
    RUNS.append("break_off")
    (out / "half.txt").write_text("half of it")
    if error == "busy":
        raise RetryableError(error)
    raise UserError(error) if error.endswith(".") else RuntimeError(error)


shouting, measuring, breaking = (
    Stage(build, build.__name__, code="infra.errors") for build in (shout, measure, break_off)
)


@pytest.fixture(autouse=True)
def no_runs_yet() -> None:
    RUNS.clear()


def in_flow(work: Callable[[], T]) -> T:
    """Result of the work, run inside a flow."""
    return flow(work, name="stages")()


def names_in(root: Path, name: str) -> list[str]:
    return sorted(path.name for path in (root / "stages" / name).iterdir())


def test_equal_inputs_are_built_once(root: Path) -> None:
    first = in_flow(lambda: shouting("hello"))
    again = in_flow(lambda: shouting(text="hello", marks=1))
    assert RUNS == ["shout"]
    assert (first.cached, again.cached) == (False, True)
    assert again == Output(first.folder, {"characters": 6}, cached=True)
    assert first.folder.parent == root / "stages" / "shout"
    assert (first.folder / "text.txt").read_text() == "HELLO!"


def test_parameters_and_name_are_part_of_the_key() -> None:
    twin = Stage(shout, "shout-twin", code="infra.errors")
    calls = (shouting, "hello", 1), (shouting, "hello", 2), (shouting, "hallo", 1)
    outputs = in_flow(lambda: [stage(*inputs) for stage, *inputs in (*calls, (twin, "hello", 1))])
    assert RUNS == ["shout"] * 4
    assert len({output.folder.name for output in outputs}) == 4


def test_files_are_keyed_by_content_not_path(tmp_path: Path) -> None:
    here, there = tmp_path / "here.txt", tmp_path / "far" / "there.txt"
    here.write_text("same")
    first = in_flow(lambda: measuring([here]))
    there.parent.mkdir()
    here.rename(there)
    moved = in_flow(lambda: measuring([there]))
    assert (moved.cached, moved.folder) == (True, first.folder)
    there.write_text("other")
    changed = in_flow(lambda: measuring([there]))
    assert not changed.cached
    assert RUNS == ["measure"] * 2


def test_earlier_stages_are_keyed_by_their_output() -> None:
    first = in_flow(lambda: measuring([shouting("hello").folder]))
    equal = in_flow(lambda: measuring([shouting("HELLO").folder]))
    assert (equal.cached, equal.folder) == (True, first.folder)
    changed = in_flow(lambda: measuring([shouting("HELL").folder]))
    assert not changed.cached
    assert RUNS == ["shout", "measure", "shout", "shout", "measure"]


def test_missing_folder_is_rebuilt() -> None:
    first = in_flow(lambda: shouting("gone"))
    shutil.rmtree(first.folder)
    again = in_flow(lambda: shouting("gone"))
    assert (again.folder, again.cached) == (first.folder, False)
    assert (again.folder / "text.txt").read_text() == "GONE!"
    assert in_flow(lambda: shouting("gone")).cached


def test_results_are_json_with_a_relative_folder() -> None:
    output = in_flow(lambda: shouting("stored"))
    content = (PREFECT_LOCAL_STORAGE_PATH.value() / output.folder.name).read_bytes()
    record = json.loads(content)
    assert record["metadata"]["serializer"]["type"] == "json"
    assert json.loads(record["result"]) == {
        "folder": f"stages/shout/{output.folder.name}",
        "found": False,
    }


def test_lost_result_of_existing_folder_runs_nothing() -> None:
    first = in_flow(lambda: shouting("lost"))
    (PREFECT_LOCAL_STORAGE_PATH.value() / first.folder.name).unlink()
    RUNS.clear()
    again = in_flow(lambda: shouting("lost"))
    assert (again, RUNS) == (Output(first.folder, first.facts, cached=True), [])


def test_manifest_lists_inputs_and_outputs(tmp_path: Path) -> None:
    outside = tmp_path / "input.txt"
    outside.write_text("input")
    text = in_flow(lambda: shouting("inside")).folder
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(text, elsewhere)
    folder = in_flow(lambda: measuring([outside, text, text / "text.txt", elsewhere])).folder
    manifest = json.loads((folder / MANIFEST).read_text())
    written = folder / "lengths.json"
    assert manifest["files"] == {
        "lengths.json": {"bytes": written.stat().st_size, "sha256": sha256_of(written)}
    }
    assert manifest["stage"] == "measure"
    assert manifest["key"] == folder.name
    assert manifest["digest"] == content_digest(folder)
    digests = [sha256_of(outside), content_digest(text), sha256_of(text / "text.txt")]
    assert manifest["inputs"] == {"texts": [*digests, digests[1]]}
    stage_of_text = {"stage": "shout", "key": text.name, "digest": digests[1]}
    assert manifest["made_from"] == [
        {"input": "texts", "path": str(outside), "bytes": 5, "sha256": digests[0]},
        {"input": "texts", **stage_of_text},
        {"input": "texts", **stage_of_text, "file": "text.txt", "sha256": digests[2]},
        {"input": "texts", "path": str(elsewhere), "digest": digests[1]},
    ]
    assert {"python", "torch", "pyarrow"} <= manifest["packages"].keys()


def test_log_names_stages_that_were_built_or_cached(caplog: pytest.LogCaptureFixture) -> None:
    labelled = Stage(shout, "shout", code="infra.errors", label=lambda inputs: inputs["text"])
    text = uuid4().hex
    assert not in_flow(lambda: labelled(text)).cached
    assert in_flow(lambda: labelled(text)).cached
    lines = [r.getMessage() for r in caplog.records if r.name == "prefect.task_runs"]
    assert lines == [f"Done: shout {text}"]
    assert f"Cached: shout {text}" in caplog.messages


def refused(key: str, inputs: dict[str, Any]) -> tuple[str | None, str | None, bool]:
    """Name and message of the breaking stage's final state, and whether it is a failed state."""
    state = breaking.task(key, inputs, return_state=True)
    return state.name, state.message, state.is_failed()


def test_user_error_has_no_traceback_and_no_output(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sentence = "The input is empty. Add some text."
    # A fresh key, because results of earlier test runs may still exist.
    name, message, failed = in_flow(lambda: refused(uuid4().hex, {"error": sentence}))
    assert (name, message, failed) == (REFUSED, sentence, True)
    assert sentence not in caplog.text, "the flow that uses the stage logs it, once"
    assert "Traceback" not in caplog.text
    with pytest.raises(UserError, match=f"^{re.escape(sentence)}$"):
        in_flow(lambda: breaking(sentence))
    assert names_in(root, "break_off") == []


def test_crash_leaves_no_output_and_no_result(root: Path) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match="out of paper"):
            in_flow(lambda: breaking("out of paper"))
    assert RUNS == ["break_off"] * 2
    assert names_in(root, "break_off") == []


KILLED = """
import os, signal
from prefect import flow
from infra.artifacts.stage import Stage

def build(out, text, marks):
    (out / "half.txt").write_text(text)
    os.kill(os.getpid(), signal.SIGKILL)

flow(lambda: Stage(build, "shout", code="infra.errors")("half", 1), name="killed")()
"""


@pytest.mark.heavy
def test_killed_stage_leaves_nothing_finished(root: Path) -> None:
    environment = {**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value() or ""}
    killed = subprocess.run([sys.executable, "-c", KILLED], cwd=CHECKOUT, env=environment)
    assert killed.returncode == -signal.SIGKILL
    (half,) = (root / "stages" / "shout").rglob("half.txt")
    assert half.relative_to(root / "stages" / "shout").parts[0].startswith(".building-")
    built = in_flow(lambda: shouting("half", 1)).folder
    assert {path.name for path in built.iterdir()} == {"text.txt", MANIFEST}
    assert names_in(root, "shout") == [built.name]


def test_second_run_waits_for_the_first(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    built = in_flow(lambda: shouting("once")).folder
    built.rename(root / built.name)
    RUNS.clear()
    with ThreadPoolExecutor(1) as thread:
        with exclusive_lock(lock_file(built, "build"), "The first run builds the stage."):
            second = thread.submit(in_flow, lambda: shouting("once"))
            wait("the second run", lambda: "waiting for it to finish" in caplog.text)
            (root / built.name).rename(built)
        assert second.result().folder == built
    assert RUNS == []


def test_first_use_reads_the_source_of_all_stages(root: Path) -> None:
    """A later stage runs the code that was loaded by then, and not what was edited since."""
    stage._read_sources.cache_clear()
    stage.source_digest.cache_clear()
    importlib.import_module("tasks.stages")
    shouting.is_built("a")
    read = stage.source_digest.cache_info().misses
    assert {"infra.errors", "tasks.reports.comparison"} <= Stage.modules
    for module in Stage.modules:
        stage.source_digest(module)
    assert stage.source_digest.cache_info().misses == read


def test_step_whose_code_was_edited_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    shouting.is_built("earlier")
    monkeypatch.setattr(stage, "sha256_of", lambda path: "edited")
    with pytest.raises(UserError, match="The code of the step shout was edited after this run"):
        in_flow(lambda: shouting("edited"))


def extend(out: Path, file: Path) -> dict[str, Any]:
    """A file that is still being written while the stage reads it."""
    text = file.read_text()
    (out / "copy.txt").write_text(text)
    if text == "half":
        file.write_text("half, and the rest")
    return {}


def test_file_changed_while_read_is_refused(root: Path, tmp_path: Path) -> None:
    extending, file = Stage(extend, "extend", code="infra.errors"), tmp_path / "input.txt"
    file.write_text("half")
    message = f"the step extend reads was changed after this run had started: {file}. Start"
    with pytest.raises(UserError, match=re.escape(message)):
        in_flow(lambda: extending(file))
    assert names_in(root, "extend") == []
    again = in_flow(lambda: extending(file))
    assert (again.folder / "copy.txt").read_text() == "half, and the rest"
    file.write_text("half")
    assert not in_flow(lambda: extending.is_built(file))


DIGESTS = """
import json
from infra.settings import CHECKOUT
from infra.artifacts.stage import source_digest

modules = (
    "tasks.training.train_variant",
    "tasks.data.ingest",
    "tasks.text.encode",
    "tasks.reports.comparison",
    "tasks.stages",
)

def digests():
    source_digest.cache_clear()
    return {module: source_digest(module) for module in modules}

results = [digests()]
for edited in (
    "models/modules/layers.py",
    "tasks/text/tokenizer.py",
    "tasks/reports/templates/style.css",
    "tests.py",
):
    with (CHECKOUT / edited).open("a") as file:
        file.write("EDITED = True\\n")
    results.append(digests())
print(json.dumps(results))
"""


@pytest.mark.heavy
def test_key_covers_imported_modules_and_templates(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(CHECKOUT / package, tmp_path / package)
    process = subprocess.run(
        [sys.executable, "-c", DIGESTS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    digests = json.loads(process.stdout)
    changed = [
        {module for module, digest in after.items() if digest != before[module]}
        for before, after in pairwise(digests)
    ]
    assert changed == [
        {"tasks.training.train_variant", "tasks.reports.comparison", "tasks.stages"},
        {
            "tasks.training.train_variant",
            "tasks.data.ingest",
            "tasks.reports.comparison",
            "tasks.stages",
        },
        {"tasks.reports.comparison", "tasks.stages"},
        set(),
    ]


def test_bidaf_is_no_source_of_language_models() -> None:
    """An edit of BiDAF or of its training leaves trained language models valid."""
    modules = set(source_modules("tasks.training.train_language_model"))
    assert "models.language_model.trainer" in modules
    bidaf = {name for name in source_modules("models.trainer") if name.startswith("models.")}
    shared = {"models.arrays", "models.configs.variant", "models.optim"}
    shared |= {f"models.modules.{name}" for name in ("layers", "mask", "rnn")}
    assert modules & bidaf == shared
    training = {"train_variant", "ray_trainer", "worker", "checkpoints", "inputs", "outputs"}
    assert not modules & {f"tasks.training.{name}" for name in training}


def test_run_each_yields_the_others_if_one_fails() -> None:
    def work() -> dict[int, Output | Exception]:
        with ThreadPoolTaskRunner(max_workers=2) as runner:
            calls = [("The file is empty.",), ("a crash",), ("busy",)]
            return dict(breaking.run_each(runner, calls)) | {
                number + len(calls): outcome
                for number, outcome in shouting.run_each(runner, [("a",), ("b",)])
            }

    outcomes = in_flow(work)
    assert isinstance(outcomes[0], UserError) and str(outcomes[0]) == "The file is empty."
    assert isinstance(outcomes[1], RuntimeError) and str(outcomes[1]) == "a crash"
    assert isinstance(outcomes[2], RetryableError)
    for number, text in ((3, "A!"), (4, "B!")):
        output = outcomes[number]
        assert isinstance(output, Output)
        assert (output.folder / "text.txt").read_text() == text


def fill(out: Path, runs: Path) -> dict[str, Any]:
    with runs.open("a") as file:
        file.write("run\n")
    with open("/dev/full", "wb", buffering=0) as full:
        full.write(b"x")
    return {}


def test_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filling = Stage(fill, "fill", code="infra.errors")

    @flow
    def run() -> None:
        with pytest.raises(UserError, match=r"^The disk is full: .*bidaflow prune --yes"):
            filling(tmp_path / "runs")
        monkeypatch.setattr("infra.storage.free_space.MIN_FREE_BYTES", 10**18)
        with pytest.raises(UserError, match=r"MB left. Free some space, .*bidaflow prune --yes"):
            filling(tmp_path / "runs")

    (tmp_path / "runs").touch()
    run()
    assert (tmp_path / "runs").read_text() == "run\n", "the second one did not start"
