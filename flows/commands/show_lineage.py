"""Show the lineage of a run, down to the SHA-256 of every input."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.filesize import decimal
from rich.markup import escape
from rich.tree import Tree

from flows.commands.terminal import open_console
from tasks.tracking.lineage import (
    FinishedStage,
    ManifestEntry,
    file_state,
    find_runs,
    finished_stages,
    recorded_runs,
    required_stage,
)

COLOURS = {"present": "green", "missing": "yellow", "changed": "red"}


def lineage(
    run: Annotated[str, Parameter(help="MLflow run id or name, or model version or alias.")], /
) -> None:
    """Show what a run was made from: its model, every step, and the SHA-256 of every file.

    Raises:
        UserError: there is no such run, or the stage that trained it has been pruned.
    """
    stages = finished_stages()
    drawn: set[str] = set()
    trees = []
    for match in find_runs(recorded_runs(), run):
        trees.append(
            Tree(
                f"[bold cyan]{escape(match.name)}[/]  {escape(match.experiment)}  run {match.id}  "
                f"{match.status}  {match.started}  [bold]{escape('  '.join(match.models))}[/]"
            )
        )
        _add_stage(trees[-1], "", required_stage(stages, match), stages, drawn)
    open_console(highlight=False).print(*trees)


def _add_stage(
    tree: Tree,
    label: str,
    stage: FinishedStage,
    stages: Mapping[str, FinishedStage],
    drawn: set[str],
) -> None:
    """Add a stage, its files and its inputs to a tree; a stage in `drawn` without them."""
    finished = f"{stage.manifest['finished']}  [dim]git {stage.manifest['git'] or 'unknown'}[/]"
    branch = tree.add(f"{label}[cyan]{stage.name}[/]  {finished}")
    if stage.name in drawn:
        branch.add("[dim]see above[/]")
        return
    drawn.add(stage.name)
    for name, entry in stage.manifest["files"].items():
        branch.add(_file_line(name, entry))
    for entry in stage.manifest["made_from"]:
        source = f"[bold]{entry['input']}[/] ← "
        if "path" in entry:
            path = Path(entry["path"])
            state = file_state(path, entry)
            line = _file_line(str(path / entry.get("member", "")), entry)
            branch.add(f"{source}[{COLOURS[state]}]{state}[/]  {line}")
            continue
        name = f"{entry['stage']}/{entry['key']}"
        if "file" in entry:
            source += f"{escape(entry['file'])} of "
        if name in stages:
            _add_stage(branch, source, stages[name], stages, drawn)
        else:
            branch.add(f"{source}{name}  digest {entry['digest']}  [yellow]pruned[/]")


def _file_line(name: str, entry: ManifestEntry) -> str:
    rows = f"  {entry['rows']:,} rows" if "rows" in entry else ""
    size = f"  {decimal(entry['bytes'])}" if "bytes" in entry else ""
    digest = f"sha256 {entry['sha256']}" if "sha256" in entry else f"digest {entry['digest']}"
    return f"{escape(name)}{rows}{size}  [dim]{digest}[/]"
