"""Stages: functions that fill a folder, run once per distinct input, as cached Prefect tasks.

A stage's key is the digest of its inputs' content, its parameters and the source of every project
module that it reaches. Prefect's result store is the one cache: a result is a small JSON document
that holds the address of the folder, and a folder that has gone missing is made again.
"""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec

import grimp
from prefect import Task
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture, wait
from prefect.states import Failed
from prefect.task_runners import TaskRunner
from pydantic import BaseModel

from infra.settings import CHECKOUT, settings
from tasks.errors import UserError

P = ParamSpec("P")
Facts = dict[str, Any]
Build = Callable[Concatenate[Path, P], Facts]

PACKAGES = ("flows", "tasks", "models", "infra")
MANIFEST = "manifest.json"
REFUSED = "Refused"
"""Name of the state of a run that ended with a sentence for its user instead of a traceback."""


@dataclass(frozen=True)
class Output:
    """What a stage made: where it is, and the facts worth telling of it."""

    folder: Path
    facts: Facts
    cached: bool  # nothing was run: an earlier result was found


@dataclass(frozen=True)
class Pending:
    """A stage that runs beside others."""

    folder: Path
    future: PrefectFuture[Any]

    def output(self) -> Output:
        """The stage's output, waited for.

        Raises:
            UserError: the inputs can't be used; the sentence says why.
        """
        self.future.wait()
        return _output(self.folder, self.future.state)


def outputs_of(pending: Sequence[Pending]) -> list[Output]:
    """The outputs of stages that run side by side, after the last one's end.

    Raises:
        UserError: the first sentence of those that were refused.
    """
    wait([each.future for each in pending])
    return [each.output() for each in pending]


def _output(folder: Path, state: State[Any]) -> Output:
    return Output(folder, result_of(state)["facts"], state.name == "Cached")


def sha256_of(path: Path) -> str:
    """Hexadecimal digest of a file's content, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of(value: Any) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


@lru_cache(maxsize=1)
def _imports() -> grimp.ImportGraph:
    return grimp.build_graph(PACKAGES[0], *PACKAGES[1:], cache_dir=None)


def _source_file(module: str) -> Path:
    path = CHECKOUT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@lru_cache
def source_digest(module: str) -> str:
    """Digest of the source of a module and of all project modules that it imports, however far."""
    modules = sorted({module, *_imports().find_upstream_modules(module)})
    return _digest_of([[name, sha256_of(_source_file(name))] for name in modules])


def _manifest(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return manifest


def facts_of(folder: Path) -> Facts:
    """The facts that a stage told of the folder it wrote."""
    facts: Facts = _manifest(folder)["facts"]
    return facts


def content_digest(path: Path) -> str:
    """Digest of a file's content, of a zip's for a member of it, or of all that a stage wrote
    into its folder.

    Raises:
        UserError: there is nothing at that place.
    """
    if path.is_dir():
        return str(_manifest(path)["digest"])
    if path.parent.is_file():
        return _digest_of([path.name, sha256_of(path.parent)])
    if not path.exists():
        raise UserError(f"{path} is not there; check the path.")
    return sha256_of(path)


def _identity(value: Any) -> Any:
    """What of an input counts for the key: content, never a location or a time."""
    if isinstance(value, Path):
        return content_digest(value)
    if isinstance(value, BaseModel):
        return _identity(value.model_dump())
    if is_dataclass(value) and not isinstance(value, type):
        return _identity(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _identity(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_identity(item) for item in value]
    return value


def _content(folder: Path) -> dict[str, dict[str, int | str]]:
    """Size and digest of each file below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": sha256_of(path),
        }
        for path in files
    }


def _write_manifest(folder: Path, told: dict[str, Any]) -> None:
    files = _content(folder)
    digest = _digest_of({name: entry["sha256"] for name, entry in files.items()})
    manifest = {"key": folder.name, "digest": digest, **told, "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _publish(folder: Path, final: Path) -> None:
    """Give a finished folder its name; a twin that was finished first is kept instead."""
    try:
        os.rename(folder, final)
    except OSError:
        if not final.exists():
            raise


class Stage(Generic[P]):
    """A `build(out, …) -> facts` function, called without its `out`, that runs once per key.

    `out` is an empty folder whose name is the stage's key. It gets its place among the stages
    when the function has returned, so a stage that fails or is killed leaves nothing finished.
    """

    def __init__(self, build: Build[P], name: str, retries: int) -> None:
        self.build, self.name = build, name
        self.task: Task[[str, dict[str, Any]], Any] = Task(
            self._run,
            name=self.name,
            description=build.__doc__,
            retries=retries,
            retry_delay_seconds=5,
            retry_condition_fn=_is_no_refusal,
            persist_result=True,
            result_serializer="json",
            cache_key_fn=lambda context, parameters: str(parameters["key"]),
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Output:
        """The stage's output for these inputs, made now or found.

        Raises:
            UserError: the inputs can't be used; the sentence says why.
        """
        inputs = self._inputs(*args, **kwargs)
        folder = self._folder(inputs)
        state = self._task_for(folder)(folder.name, inputs, return_state=True)
        return _output(folder, state)

    def submit(self, runner: TaskRunner[Any], *args: P.args, **kwargs: P.kwargs) -> Pending:
        """Start the stage on a task runner, beside others; `output()` waits for it."""
        inputs = self._inputs(*args, **kwargs)
        folder = self._folder(inputs)
        parameters = {"key": folder.name, "inputs": inputs}
        return Pending(folder, runner.submit(self._task_for(folder), parameters))

    def is_made(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether the stage's output for these inputs is there."""
        return self._folder(self._inputs(*args, **kwargs)).exists()

    def _folder(self, inputs: dict[str, Any]) -> Path:
        code = source_digest(self.build.__module__)
        key = _digest_of([self.name, _identity(inputs), code])[:32]
        return settings().root.resolve() / "stages" / self.name / key

    def _task_for(self, folder: Path) -> Task[[str, dict[str, Any]], Any]:
        return self.task.with_options(refresh_cache=not folder.exists())

    def _inputs(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        parameters = list(signature(self.build).parameters.values())[1:]
        bound = signature(self.build).replace(parameters=parameters).bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    def _run(self, key: str, inputs: dict[str, Any]) -> Any:
        parent = settings().root.resolve() / "stages" / self.name
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=parent) as building:
            folder = Path(building) / key
            folder.mkdir()
            began = time.perf_counter()
            try:
                facts = self.build(folder, **inputs)  # type: ignore[call-arg]
            except UserError as error:
                return Failed(name=REFUSED, message=str(error))
            told = {
                "stage": self.name,
                "inputs": _identity(inputs),
                "code": source_digest(self.build.__module__),
                "seconds": time.perf_counter() - began,
                "facts": facts,
            }
            _write_manifest(folder, told)
            _publish(folder, parent / key)
        return {"folder": f"stages/{self.name}/{key}", "facts": facts}


def _is_no_refusal(task: Any, task_run: Any, state: State[Any]) -> bool:
    return state.name != REFUSED


def result_of(state: State[Any]) -> Any:
    """A run's result; a refused run raises its sentence, a failed one its exception."""
    if state.name == REFUSED:
        raise UserError(state.message)
    return state.result()


def stage(build: Build[P], name: str) -> Stage[P]:
    """Make a stage of a function that fills a folder."""
    return Stage(build, name, retries=0)


def outside_stage(build: Build[P], name: str) -> Stage[P]:
    """Make a stage of a function that needs the network, which can fail: tried three times."""
    return Stage(build, name, retries=2)
