"""Stages: functions that fill a folder, run once per distinct input, as cached Prefect tasks.

A stage's key is the digest of its inputs' content, its parameters and the source of every project
module that it imports, directly or indirectly, with the templates in the folders of these modules.
Prefect's result store is the only cache: a result is a small JSON document with the path of the
folder. A missing folder is fetched from the storage root's address, if it is one and has the stage,
or else built again. Facts about a folder are kept in its manifest. A run that needs a stage that
another run is building waits for it.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec

from prefect import Task
from prefect.client.schemas.objects import State
from prefect.futures import as_completed
from prefect.runtime import task_run
from prefect.states import Failed
from prefect.task_runners import TaskRunner

from infra.artifacts.in_use import use
from infra.artifacts.locks import exclusive_lock, lease, lock_file
from infra.artifacts.manifest import (
    Facts,
    digest_of,
    facts_of,
    identity,
    origins,
    sha256_of,
    stages_folder,
    write_manifest,
)
from infra.artifacts.node_cache import evict
from infra.artifacts.remote import fetch, publish, published
from infra.atomic_files import new_folder
from infra.errors import RetryableError, UserError, fault_of_machine
from infra.heartbeat import step
from infra.own_packages import PACKAGES, foreign_package
from infra.run_logger import logger
from infra.settings import CHECKOUT
from infra.storage.free_space import require_free_space
from infra.storage.root_format import require_format

P = ParamSpec("P")
Build = Callable[Concatenate[Path, P], Facts]

FILES_SHOWN = 5  # in an error message

# The state of a stage that ended with an error message instead of a traceback.
REFUSED = "Refused"
# The message of a flow run that was refused starts with this. Its state has a standard name: the
# list of a deployment's runs leaves others out.
REFUSED_FLOW = "Refused: "


def _hide(engine: str, states: str) -> None:
    """Hide an engine's lines about states that match a regular expression."""
    pattern = re.compile(rf"\bstate:? .*({states})")
    logging.getLogger(engine).addFilter(lambda record: not pattern.search(record.getMessage()))


# Prefect's lines do not name the stage; those logged below do. The flow logs the reason of a
# refusal once, and the states of the run and its stages have it.
_hide("prefect.task_runs", rf"(Completed|Cached|{REFUSED})\(")
_hide("prefect.flow_runs", rf"({REFUSED}\(|Cached\(|Failed\(['\"]{REFUSED_FLOW})")


@dataclass(frozen=True)
class Output:
    """A stage's output: its folder, and the facts about it."""

    folder: Path
    facts: Facts
    cached: bool  # nothing was run: an earlier result was reused


def _output(folder: Path, task: Task[Any, Any], state: State[Any]) -> Output:
    cached = result_of(state).get("found") or state.name == "Cached"
    if cached:
        logger().info(f"Cached: {task.task_run_name}")
    return Output(folder, facts_of(folder), cached)


@lru_cache(maxsize=1)
def _imports() -> Any:
    """The imports of our packages. Raises UserError if Python finds others of their names."""
    import grimp  # takes a while to load

    if problem := foreign_package():
        raise UserError(problem)
    return grimp.build_graph(PACKAGES[0], *PACKAGES[1:], cache_dir=None)


def _source_file(module: str) -> Path:
    path = CHECKOUT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def source_modules(module: str) -> list[str]:
    """A module and all project modules that it imports, also indirectly, sorted."""
    return sorted({module, *_imports().find_upstream_modules(module)})


@lru_cache
def source_digest(module: str) -> str:
    """Digest of the source of a module and of all project modules it imports, also indirectly.

    The files in `templates/` beside a module count as its source, because it may render them.
    """
    sources = {name: _source_file(name) for name in source_modules(module)}
    folders = {path.parent for path in sources.values()}
    templates = sorted(file for folder in folders for file in folder.glob("templates/*"))
    sources |= {path.relative_to(CHECKOUT).as_posix(): path for path in templates}
    return digest_of([[name, sha256_of(path)] for name, path in sources.items()])


@lru_cache(maxsize=1)
def _read_sources() -> None:
    """Compute the digests of all stages before the first one is used, so that those used hours
    later have the digest of the code that this process has loaded."""
    for module in Stage.modules:
        source_digest(module)


class Stage(Generic[P]):
    """A function `build(out, …) -> facts` that runs once per key; callers omit `out`.

    `out` is an empty folder named after the stage's key. It is moved to its place among the stages
    when the function returns, so a stage that fails or is killed leaves no finished folder.

    `code` is the project module whose source, with everything it imports, is part of the key; by
    default it is the function's own module. `label` says in a word or two what a run of the stage
    is about, from its inputs; the names of task runs show it.
    """

    modules: ClassVar[set[str]] = set()  # of all stages

    def __init__(
        self,
        build: Build[P],
        name: str,
        code: str | None = None,
        label: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        self.build, self.name, self.code = build, name, code or build.__module__
        self.label = label
        Stage.modules.add(self.code)
        self.task: Task[[str, dict[str, Any]], Any] = Task(
            self._run,
            name=self.name,
            description=build.__doc__,
            persist_result=True,
            result_serializer="json",
            cache_key_fn=lambda context, parameters: str(parameters["key"]),
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Output:
        """The stage's output for these inputs, built now or taken from the cache.

        Raises:
            UserError: the inputs can't be used; the message says why.
        """
        inputs, folder = self._resolve(*args, **kwargs)
        task = self._task_for(folder, inputs)
        return _output(folder, task, task(folder.name, inputs, return_state=True))

    def run_each(
        self, runner: TaskRunner[Any], calls: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Output | Exception]]:
        """Build the stage for several tuples of arguments, in parallel by the runner.

        Yields the position of each call as it ends, with its output or with the error that it
        failed with.
        """
        resolved = [self._resolve(*arguments) for arguments in calls]
        tasks = [self._task_for(folder, inputs) for inputs, folder in resolved]
        numbers = {
            runner.submit(tasks[number], {"key": folder.name, "inputs": inputs}): number
            for number, (inputs, folder) in enumerate(resolved)
        }
        for future in as_completed(list(numbers)):
            future.wait()  # reads the final state, which the future does not have before
            number = numbers[future]
            try:
                outcome: Output | Exception
                outcome = _output(resolved[number][1], tasks[number], future.state)
            except Exception as error:  # whatever the stage raised; the caller decides
                outcome = error
            yield number, outcome

    def is_built(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether the stage's output for these inputs exists, here or at the root's address."""
        _, folder = self._resolve(*args, **kwargs)
        return folder.exists() or published(folder) is not None

    def _resolve(self, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], Path]:
        """The inputs by their names, and the folder of the stage's output for them."""
        require_format()
        without_out = partial(self.build, Path())
        bound = signature(without_out).bind(*args, **kwargs)
        bound.apply_defaults()
        _read_sources()
        folder = stages_folder() / self.name / self._key(identity(bound.arguments))
        use(folder)
        return bound.arguments, folder

    def _key(self, content: Any) -> str:
        """The key for inputs with this identity."""
        return digest_of([self.name, content, source_digest(self.code)])[:32]

    def _task_for(self, folder: Path, inputs: dict[str, Any]) -> Task[[str, dict[str, Any]], Any]:
        """The task that builds the folder. Its runs are named after the stage, with its label."""
        words = [self.name, self.label(inputs)] if self.label else [self.name]
        # Prefect fills in {fields}; a path in a label may contain braces.
        title = " ".join(words).replace("{", "(").replace("}", ")")
        return self.task.with_options(refresh_cache=not folder.exists(), task_run_name=title)

    def _run(self, key: str, inputs: dict[str, Any]) -> Any:
        final = stages_folder() / self.name / key
        message = "Another run is building this stage; waiting for it to finish."
        with step(task_run.name), exclusive_lock(lock_file(final, "build"), message):
            try:
                exists = final.exists() or fetch(final) or self._build(final, inputs)
                evict()
            except RetryableError:
                raise
            except UserError as error:
                return Failed(name=REFUSED, message=str(error))
            except Exception as error:
                if (fault := fault_of_machine(error)) is None:
                    raise
                if isinstance(fault, RetryableError):
                    raise fault from error
                return Failed(name=REFUSED, message=str(fault))
            if not exists:
                logger().info(f"Done: {task_run.name}")
        return {"folder": f"stages/{self.name}/{key}", "found": exists}

    def _build(self, final: Path, inputs: dict[str, Any]) -> bool:
        """Build a stage, unless another machine was building it; returns whether it was."""
        with lease(f"{self.name}-{final.name}"):
            if fetch(final):
                return True
            require_free_space()
            # This process has loaded the code of the key; Ray's workers would load a later one.
            if source_digest.__wrapped__(self.code) != source_digest(self.code):
                raise UserError(
                    f"The code of the step {self.name} was edited after this run had started. "
                    "Start it again. Finished steps are kept."
                )
            with new_folder(final) as folder:
                self._fill(folder, inputs)
                publish(folder, final)
        return False

    def _fill(self, folder: Path, inputs: dict[str, Any]) -> None:
        """Run the function, and write the manifest."""
        start = time.perf_counter()
        facts = self.build(folder, **inputs)  # type: ignore[call-arg]
        seconds = time.perf_counter() - start
        content, made_from = identity(inputs), list(origins(inputs))
        # A file may have changed while the stage waited or read it.
        if self._key(content) != folder.name:
            files = [origin["path"] for origin in made_from if "path" in origin]
            shown = ", ".join(files[:FILES_SHOWN]) + ", …" * (len(files) > FILES_SHOWN)
            raise UserError(
                f"A file that the step {self.name} reads was changed after this run had started: "
                f"{shown}. Start the run again. Finished steps are kept."
            )
        fields = {"stage": self.name, "inputs": content, "made_from": made_from}
        code = source_digest(self.code)
        write_manifest(folder, {**fields, "code": code, "seconds": seconds, "facts": facts})


def result_of(state: State[Any]) -> Any:
    """A run's result; a refused run raises its UserError, a failed one its exception."""
    message = state.message or ""
    if state.name == REFUSED or (state.is_failed() and message.startswith(REFUSED_FLOW)):
        raise UserError(message.removeprefix(REFUSED_FLOW))
    return state.result()
