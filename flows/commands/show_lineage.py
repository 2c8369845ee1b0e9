"""Show the lineage of a run, down to the SHA-256 of every input, or the runs that use a file."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.tree import Tree

from flows.commands.lineage_summary import list_runs, summarize_file, summarize_run
from flows.commands.terminal import show
from infra.errors import UserError
from infra.settings import settings
from tasks.tracking.lineage import (
    FinishedStage,
    ManifestEntry,
    RecordedRun,
    ancestors,
    fetch_stages,
    file_state,
    find_runs,
    finished_stages,
    recorded_runs,
    required_stage,
    stages_using,
)

COLOURS = {"intact": "green", "present": "green", "missing": "yellow", "changed": "red"}


class Lineage:
    """Draws lineage trees; a stage that occurs again is not expanded again."""

    def __init__(
        self, stages: Mapping[str, FinishedStage], runs: Iterable[RecordedRun], verify: bool
    ) -> None:
        self.stages, self.verify = stages, verify
        self.runs = list(runs)
        self.drawn: set[str] = set()

    def of_run(self, run: RecordedRun) -> Tree:
        """A tree from a run to the stage that trained it, and to everything it was made from."""
        tree = Tree(_run_line(run))
        self._add_stage(tree, "", required_stage(self.stages, run))
        return tree

    def _add_stage(self, tree: Tree, label: str, stage: FinishedStage) -> None:
        branch = tree.add(f"{label}{_stage_line(stage)}")
        if stage.name in self.drawn:
            branch.add("[dim]see above[/]")
            return
        self.drawn.add(stage.name)
        for name, entry in stage.manifest["files"].items():
            branch.add(self._file_line(name, stage.folder / name, entry))
        for entry in stage.inputs:
            self._add_input(branch, entry)

    def _add_input(self, branch: Tree, entry: ManifestEntry) -> None:
        label = f"[bold]{entry['input']}[/] ← "
        if "path" in entry:
            path = Path(entry["path"])
            branch.add(label + self._file_line(str(path / entry.get("member", "")), path, entry))
            return
        name = f"{entry['stage']}/{entry['key']}"
        if "file" in entry:
            label += f"{escape(entry['file'])} of "
        if name in self.stages:
            self._add_stage(branch, label, self.stages[name])
        else:
            branch.add(f"{label}{name}  digest {entry['digest']}  [yellow]pruned[/]")

    def _file_line(self, name: str, path: Path, entry: ManifestEntry) -> str:
        state = file_state(path, entry, self.verify)
        rows = f"  {entry['rows']:,} rows" if "rows" in entry else ""
        size = f"  {decimal(entry['bytes'])}" if "bytes" in entry else ""
        digest = f"sha256 {entry['sha256']}" if "sha256" in entry else f"digest {entry['digest']}"
        return f"{escape(name)}  [{COLOURS[state]}]{state}[/]{rows}{size}  [dim]{digest}[/]"

    def of_file(self, query: str) -> Tree:
        """A tree from a file to the stages that use it, down to the runs and models."""
        users = stages_using(self.stages, query)
        tree = Tree(escape(query))
        for name in sorted(users):
            if ancestors(self.stages, [name]) & users == {name}:
                self._add_users(tree, name)
        keys = {self.stages[name].folder.name for name in self.drawn}
        if not any(run.stage in keys for run in self.runs):
            tree.add("not used by any kept run")
        return tree

    def _add_users(self, tree: Tree, name: str) -> None:
        branch = tree.add(_stage_line(self.stages[name]))
        if name in self.drawn:
            branch.add("[dim]see above[/]")
            return
        self.drawn.add(name)
        for run in self.runs:
            if run.stage == self.stages[name].folder.name:
                branch.add(_run_line(run))
        children = [child for child, stage in self.stages.items() if name in stage.parents]
        for child in sorted(children):
            self._add_users(branch, child)


def _run_line(run: RecordedRun) -> str:
    return (
        f"[bold cyan]{escape(run.name)}[/]  {escape(run.experiment)}  run {run.id}  {run.status}  "
        f"{run.started}  [bold]{escape('  '.join(run.models))}[/]"
    )


def _stage_line(stage: FinishedStage) -> str:
    return f"[cyan]{stage.name}[/]  {stage.manifest['finished']}  [dim]git {stage.git}[/]"


def lineage(
    run: Annotated[
        str | None, Parameter(help="MLflow run id or name, or model version or alias.")
    ] = None,
    /,
    *,
    file: Annotated[
        str | None,
        Parameter(
            help="Show the runs that use this file: a path, or six digits of its SHA-256.",
            metavar="FILE|SHA256",
        ),
    ] = None,
    verify: Annotated[
        bool,
        Parameter(help="Recompute the SHA-256 of all files, not only their sizes.", negative=()),
    ] = False,
    full: Annotated[
        bool,
        Parameter(name="--all", help="Show every step and file, with whole digests.", negative=()),
    ] = False,
) -> None:
    """Show what a run was made from, or with --file the runs that use a file.

    Raises:
        UserError: there is no such run or file, or the stage that trained the run has been pruned.
    """
    if (run is None) == (file is None):
        raise UserError("Give a run, such as champion, or --file with a file.")
    runs = recorded_runs(settings().tracking_uri)
    stages = finished_stages()
    matches = find_runs(runs, run) if run else []
    trained = [required_stage(stages, match).name for match in matches if full or not matches[1:]]
    fetch_stages(stages, ancestors(stages, trained))
    if full:
        drawing = Lineage(stages, runs, verify)
        trees = [drawing.of_run(match) for match in matches]
        trees += [drawing.of_file(file)] if file else []
        # Do not wrap lines that go to a file or a pipe.
        Console(highlight=False, width=None if sys.stdout.isatty() else 1000).print(*trees)
    elif file:
        show(*summarize_file(stages, runs, file), "Details    add --all")
    elif len(matches) > 1:
        show(*list_runs(matches), "Next       bidaflow lineage ID, or add --all")
    else:
        show(*summarize_run(stages, matches[0], verify), "Details    add --all")
