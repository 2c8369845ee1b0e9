"""Lineage in about ten lines: a run's inputs, and the files that are missing or changed."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.filesize import decimal

from tasks.tracking.lineage import (
    FinishedStage,
    ManifestEntry,
    RecordedRun,
    ancestors,
    file_state,
    required_stage,
    stages_using,
)

SHOWN = 5  # items of a list; the others are counted
DIGITS = 12  # of a digest
FINE = ("present", "intact")

Stages = Mapping[str, FinishedStage]
CheckedFile = tuple[Path, ManifestEntry, str]  # with its state


def summarize_run(stages: Stages, run: RecordedRun, verify: bool) -> list[str]:
    """Lines about a run: its model, code and inputs, and the state of all files it depends on.

    Raises:
        UserError: the stage that trained the run does not exist.
    """
    trained = required_stage(stages, run)
    names = sorted(ancestors(stages, [trained.name]))
    inputs = list(_inputs(stages, names, verify))
    files = [*_outputs(stages, names, verify), *inputs]
    return [
        *_run_lines(run),
        f"Trained    {trained.name[: -len(run.stage or '') + DIGITS]}, git {trained.git[:DIGITS]}",
        *(f"Input      {_file_line(*file)}" for file in inputs[:SHOWN]),
        *_more("Input", len(inputs) - SHOWN),
        *_state_lines(files, len(names)),
        *(f"Pruned     {name}" for name in sorted(_pruned(stages, names))[:SHOWN]),
    ]


def list_runs(runs: Sequence[RecordedRun]) -> list[str]:
    """One line for each run of a flow run."""
    return [f"Run        {run.id}  {_title(run)}" for run in runs]


def summarize_file(stages: Stages, runs: Sequence[RecordedRun], query: str) -> list[str]:
    """Lines about the runs that use a file, newest first.

    Raises:
        UserError: no stage refers to the file.
    """
    users = stages_using(stages, query)
    dependent = {name for name in stages if ancestors(stages, [name]) & users}
    keys = {stages[name].folder.name for name in dependent}
    using = [run for run in runs if run.stage in keys]
    return [
        f"File       {query}",
        f"Used by    {_count(len(dependent), 'step')} of {_count(len(using), 'kept run')}",
        *list_runs(using[:SHOWN]),
        *_more("Run", len(using) - SHOWN),
    ]


def _run_lines(run: RecordedRun) -> list[str]:
    return [
        f"Run        {run.name}, {run.experiment}, {run.started}, {run.status.lower()}",
        f"           {run.id}",
        *([f"Model      {', '.join(run.models)}"] if run.models else []),
    ]


def _title(run: RecordedRun) -> str:
    return "  ".join((run.name, run.experiment, run.started, *run.models))


def _inputs(stages: Stages, names: Sequence[str], verify: bool) -> Iterator[CheckedFile]:
    """The files that steps read from outside, and the files of steps that read none."""
    seen = set()
    for name in names:
        stage = stages[name]
        for entry in stage.inputs:
            if "path" in entry and (shown := _path(entry)) not in seen:
                seen.add(shown)
                yield shown, entry, file_state(Path(entry["path"]), entry, verify)
        if not stage.inputs:
            yield from _outputs(stages, [name], verify)


def _outputs(stages: Stages, names: Sequence[str], verify: bool) -> Iterator[CheckedFile]:
    for stage in (stages[name] for name in names):
        for name, entry in stage.manifest["files"].items():
            path = stage.folder / name
            yield path, entry, file_state(path, entry, verify)


def _path(entry: ManifestEntry) -> Path:
    return Path(str(entry["path"]), str(entry.get("member", "")))


def _file_line(path: Path, entry: ManifestEntry, state: str) -> str:
    digest = str(entry.get("sha256", entry.get("digest")))[:DIGITS]
    size = decimal(entry["bytes"]) if "bytes" in entry else ""
    return "  ".join(filter(None, (digest, size, state, str(path))))


def _state_lines(files: Sequence[CheckedFile], steps: int) -> list[str]:
    """How many files there are and in what state; those that are missing or changed by name."""
    files = list({path: (path, entry, state) for path, entry, state in files}.values())
    wrong = [(path, state) for path, _, state in files if state not in FINE]
    states = " and ".join(sorted({state for *_, state in files if state in FINE}))
    fine = _count(len(files) - len(wrong), "file") + f" of {_count(steps, 'step')} {states}"
    return [
        f"Files      {fine}",
        *(f"{state.capitalize():11}{path}" for path, state in wrong[:SHOWN]),
        *_more("Files", len(wrong) - SHOWN, "missing or changed"),
    ]


def _pruned(stages: Stages, names: Sequence[str]) -> set[str]:
    return {parent for name in names for parent in stages[name].parents} - stages.keys()


def _more(title: str, count: int, state: str = "") -> list[str]:
    return [f"{title:11}and {count:,} more {state}".rstrip()] if count > 0 else []


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
