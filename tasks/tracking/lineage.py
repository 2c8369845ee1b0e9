"""Lineage: from a run to the content of all its inputs, and from a file to the stages using it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.artifacts.digests import hash_file
from infra.artifacts.manifest import MANIFEST, Manifest, content_digest, read_manifest
from infra.errors import UserError
from tasks.tracking.run_records import RecordedRun

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Made:
    """A finished stage."""

    folder: Path
    manifest: Manifest

    @property
    def name(self) -> str:
        """<stage>/<key>"""
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def origins(self) -> list[Entry]:
        """The stage's inputs, one entry per file or folder."""
        origins: list[Entry] = self.manifest["made_from"]
        return origins

    @property
    def parents(self) -> set[str]:
        """Names of the stages whose outputs were its inputs."""
        return {f"{each['stage']}/{each['key']}" for each in self.origins if "stage" in each}


def all_made(stages: Path) -> dict[str, Made]:
    """All finished stages by name."""
    made = [Made(file.parent, read_manifest(file.parent)) for file in _manifests(stages)]
    return {each.name: each for each in made}


def _manifests(stages: Path) -> list[Path]:
    found = sorted(stages.glob(f"*/*/{MANIFEST}"))
    return [file for file in found if not file.parent.name.startswith(".")]


def closure(starts: Iterable[str], neighbours: Callable[[str], Iterable[str]]) -> set[str]:
    """All names reachable from `starts`, including `starts`."""
    reached, waiting = set(), list(starts)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(neighbours(name))
    return reached


def ancestors(made: Mapping[str, Made], starts: Iterable[str]) -> set[str]:
    """The stages `starts`, and all stages that they depend on, directly or indirectly."""
    return closure(starts, lambda name: made[name].parents & made.keys())


def state_of(path: Path, recorded: Entry, verify: bool) -> str:
    """Whether a file or folder still matches its manifest entry: "missing", "changed", "here" or
    "intact".

    A file is compared by its size, or with `verify` by its hash ("intact").
    """
    if not path.exists():
        return "missing"
    if path.is_dir():
        return "here" if content_digest(path) == recorded["digest"] else "changed"
    if path.stat().st_size != recorded["bytes"]:
        return "changed"
    if not verify:
        return "here"
    return "intact" if hash_file(path) == recorded["sha256"] else "changed"


def find_runs(runs: Sequence[RecordedRun], asked: str) -> list[RecordedRun]:
    """The variant runs that an id, a model, an alias or a run name (the newest match) refers to.

    For a flow run's parent run, these are the runs of its variants.

    Raises:
        UserError: nothing matches, or the run trained nothing.
    """
    model = asked.removeprefix("models:/")
    matches = (
        [run for run in runs if asked == run.id or model in run.models],
        [run for run in runs if any(name.endswith(f"@{asked}") for name in run.models)],
        [run for run in runs if asked == run.name][:1],
    )
    for found in filter(None, matches):
        return [trained for run in found for trained in _trained(runs, run)]
    names = ", ".join(dict.fromkeys(run.name for run in runs if run.stage)) or "none"
    raise UserError(
        f"MLflow has no run {asked!r}: give a run's id or name, a model such as bidaf-tiny/3, or "
        f"an alias such as champion (names of the runs: {names})."
    )


def _trained(runs: Sequence[RecordedRun], run: RecordedRun) -> list[RecordedRun]:
    below = [each for each in (run, *runs) if each.stage and run.id in (each.id, each.parent)]
    if not below:
        raise UserError(f"The run {run.name!r} ({run.id}) trained nothing; name another one.")
    return list(dict.fromkeys(below))


def required_stage(made: Mapping[str, Made], run: RecordedRun) -> Made:
    """The stage that trained a run.

    Raises:
        UserError: the stage does not exist (any more).
    """
    for each in made.values():
        if each.folder.name == run.stage:
            return each
    digests = "; ".join(f"{name} {digest}" for name, digest in run.digests.items())
    raise UserError(
        f"The stage {run.stage} of the run {run.name!r} ({run.status}) is not here: it was never "
        f"finished, or has been pruned. Its inputs had these digests: {digests}."
    )


def made_of(made: Mapping[str, Made], stage: Made, digest: str) -> Made:
    """The parent of a stage whose content has this digest.

    Raises:
        UserError: the parent does not exist any more.
    """
    for name in stage.parents & made.keys():
        if made[name].manifest["digest"] == digest:
            return made[name]
    raise UserError(
        f"An input of {stage.name}, of digest {digest}, is not here: it has been pruned."
    )


def users_of(made: Mapping[str, Made], asked: str) -> set[str]:
    """Names of the stages that have a file as input or output.

    `asked` is a path, or the first digits of a digest or key.

    Raises:
        UserError: no stage refers to it.
    """
    path = Path(asked).expanduser()
    there = path.is_file() or (path / MANIFEST).is_file()
    digest = content_digest(path) if there else asked.lower()
    if not there and not re.fullmatch("[0-9a-f]{6,64}", digest):
        digest = "no digest"
    users = {
        name
        for name, each in made.items()
        if any(_is_meant(entry, digest, str(path.absolute())) for entry in _entries(each))
    }
    if not users:
        raise UserError(
            f"No stage was made of {asked}, and none has made it: give a file's path, or at least "
            "six digits of its SHA-256."
        )
    return users


def _entries(made: Made) -> Iterator[Entry]:
    yield made.manifest
    yield from made.origins
    yield from made.manifest["files"].values()


def _is_meant(entry: Entry, digest: str, path: str) -> bool:
    digests = (str(entry.get(name, "")) for name in ("sha256", "digest", "key"))
    return entry.get("path") == path or any(each.startswith(digest) for each in digests)
