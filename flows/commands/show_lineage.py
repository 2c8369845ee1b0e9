"""Show what a run was made from, down to the bytes of every input, or which runs use a file.

python -m flows.commands.show_lineage --run champion --verify
python -m flows.commands.show_lineage --file questions.json
"""

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.tree import Tree

from infra.artifacts.manifest import stages_folder
from infra.errors import UserError
from infra.settings import settings
from tasks.tracking.lineage import (
    Entry,
    Made,
    all_made,
    ancestors,
    find_runs,
    required_stage,
    state_of,
    users_of,
)
from tasks.tracking.run_records import RecordedRun, recorded_runs

COLOURS = {"intact": "green", "here": "green", "missing": "yellow", "changed": "red"}


class Lineage:
    """Draws lineage trees; a stage that occurs again is not expanded again."""

    def __init__(self, made: Mapping[str, Made], runs: Iterable[RecordedRun], verify: bool) -> None:
        self.made, self.verify = made, verify
        self.runs = list(runs)
        self.drawn: set[str] = set()

    def of_run(self, run: RecordedRun) -> Tree:
        """A tree from a run to the stage that trained it, and to everything it was made from."""
        tree = Tree(_run_line(run))
        self._add_stage(tree, "", required_stage(self.made, run))
        return tree

    def _add_stage(self, tree: Tree, label: str, made: Made) -> None:
        branch = tree.add(f"{label}{_stage_line(made)}")
        if made.name in self.drawn:
            branch.add("[dim]as above[/]")
            return
        self.drawn.add(made.name)
        for name, entry in made.manifest["files"].items():
            branch.add(self._file_line(name, made.folder / name, entry))
        for entry in made.origins:
            self._add_origin(branch, entry)

    def _add_origin(self, branch: Tree, entry: Entry) -> None:
        label = f"[bold]{entry['input']}[/] ← "
        if "path" in entry:
            branch.add(label + self._file_line(_address(entry), Path(entry["path"]), entry))
            return
        name = f"{entry['stage']}/{entry['key']}"
        if "file" in entry:
            label += f"{escape(entry['file'])} of "
        if name in self.made:
            self._add_stage(branch, label, self.made[name])
        else:
            branch.add(f"{label}{name}  digest {entry['digest']}  [yellow]pruned[/]")

    def _file_line(self, name: str, path: Path, entry: Entry) -> str:
        state = state_of(path, entry, self.verify)
        rows = f"  {entry['rows']:,} rows" if "rows" in entry else ""
        size = f"  {decimal(entry['bytes'])}" if "bytes" in entry else ""
        digest = f"sha256 {entry['sha256']}" if "sha256" in entry else f"digest {entry['digest']}"
        colour = COLOURS[state]
        return f"{escape(name)}  [{colour}]{state}[/]{rows}{size}  [dim]{digest}[/]"

    def of_file(self, asked: str) -> Tree:
        """A tree from a file to the stages that it went into, down to the runs and models."""
        users = users_of(self.made, asked)
        tree = Tree(escape(asked))
        for name in sorted(users):
            if ancestors(self.made, [name]) & users == {name}:
                self._add_users(tree, name)
        if not self._is_in_a_run:
            tree.add("no run that is kept was made of it")
        return tree

    def _add_users(self, tree: Tree, name: str) -> None:
        branch = tree.add(_stage_line(self.made[name]))
        if name in self.drawn:
            branch.add("[dim]as above[/]")
            return
        self.drawn.add(name)
        for run in self.runs:
            if run.stage == self.made[name].folder.name:
                branch.add(_run_line(run))
        for child in sorted(self._children(name)):
            self._add_users(branch, child)

    @property
    def _is_in_a_run(self) -> bool:
        keys = {self.made[name].folder.name for name in self.drawn}
        return any(run.stage in keys for run in self.runs)

    def _children(self, name: str) -> set[str]:
        return {child for child, made in self.made.items() if name in made.parents}


def _address(entry: Entry) -> str:
    return f"{entry['path']}/{entry['member']}" if "member" in entry else str(entry["path"])


def _run_line(run: RecordedRun) -> str:
    models = "  ".join(run.models)
    return (
        f"[bold cyan]{escape(run.name)}[/]  {escape(run.experiment)}  run {run.id}  {run.status}  "
        f"{run.started}  [bold]{escape(models)}[/]"
    )


def _stage_line(made: Made) -> str:
    manifest = made.manifest
    return f"[cyan]{made.name}[/]  {manifest['finished']}  [dim]git {manifest['git']}[/]"


def trees(run: str | None, file: str | None, verify: bool) -> list[Tree]:
    """The requested trees: one for each matching run, or one for the file.

    Raises:
        UserError: there is no such run or file, or the stage that trained the run has been pruned.
    """
    runs = recorded_runs(settings().tracking_uri)
    lineage = Lineage(all_made(stages_folder()), runs, verify)
    if file is not None:
        return [lineage.of_file(file)]
    assert run is not None
    return [lineage.of_run(each) for each in find_runs(runs, run)]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m flows.commands.show_lineage", description=__doc__
    )
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--run", help="an MLflow run's id or name, a model's version or alias")
    asked.add_argument("--file", help="path of a file, or the first digits of its SHA-256")
    parser.add_argument("--verify", action="store_true", help="read all files and check them")
    try:
        found = trees(**vars(parser.parse_args(arguments)))
    except UserError as error:
        sys.exit(str(error))
    # Do not wrap lines that go to a file or a pipe.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 1000)
    for tree in found:
        console.print(tree)


if __name__ == "__main__":
    main(sys.argv[1:])
