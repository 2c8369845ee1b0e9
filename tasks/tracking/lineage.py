"""Lineage: from a run to the content of all its inputs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.artifacts.manifest import Manifest, content_digest
from infra.artifacts.remote import find_manifests
from infra.errors import UserError
from tasks.tracking.client import all_pages, reading_client

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

# MLflow is imported locally, because it takes a second to load.

TRAINING_STAGE = "train"


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """A run recorded in MLflow."""

    id: str
    name: str
    experiment: str
    status: str
    started: str  # UTC, to the minute
    parent: str | None  # id of the parent run
    stage: str | None  # key of the stage that trained it
    digests: dict[str, str]  # digests of that stage's inputs, by tag name
    models: tuple[str, ...]  # versions and aliases, such as bidaf-tiny/3, bidaf-tiny@champion

    @property
    def short_name(self) -> str:
        """The name without seed and flow run: "char" of "char · seed 3 · amber-fox"."""
        return self.name.partition(" · ")[0]


def recorded_runs(include_deleted: bool = False) -> list[RecordedRun]:
    """All runs, newest first; with `include_deleted` also deleted runs that MLflow still has.

    Raises:
        UserError: the server does not respond.
    """
    from mlflow.entities import ViewType

    client = reading_client()
    if client is None:
        return []
    models = _models(client)
    view = ViewType.ALL if include_deleted else ViewType.ACTIVE_ONLY
    found = all_pages(client.search_experiments, view_type=view)
    experiments = {experiment.experiment_id: experiment.name for experiment in found}
    runs = all_pages(client.search_runs, experiment_ids=list(experiments), run_view_type=view)
    return [
        RecordedRun(
            id=run.info.run_id,
            name=run.info.run_name,
            experiment=experiments[run.info.experiment_id],
            status=run.info.status,
            started=datetime.fromtimestamp(run.info.start_time / 1000, UTC).isoformat(
                " ", "minutes"
            ),
            parent=run.data.tags.get("mlflow.parentRunId"),
            stage=run.data.tags.get("bidaflow.stage"),
            digests={k: v for k, v in run.data.tags.items() if k.endswith(".digest")},
            models=models[run.info.run_id],
        )
        for run in sorted(runs, key=lambda run: run.info.start_time // 60_000, reverse=True)
    ]


def _models(client: "MlflowClient") -> dict[str, tuple[str, ...]]:
    """The model versions and aliases of each run, by run id."""
    names: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    aliases = {model.name: model.aliases for model in all_pages(client.search_registered_models)}
    for model in all_pages(client.search_model_versions):
        version = str(model.version)
        targets = aliases.get(model.name, {})  # none of a model that was registered just now
        own = [alias for alias, target in targets.items() if str(target) == version]
        names[model.run_id] += (f"{model.name}/{version}", *(f"{model.name}@{a}" for a in own))
    return names


ManifestEntry = Mapping[str, Any]


@dataclass(frozen=True)
class FinishedStage:
    """A finished stage."""

    folder: Path
    manifest: Manifest

    @property
    def name(self) -> str:
        """<stage>/<key>"""
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def parents(self) -> set[str]:
        """Names of the stages whose outputs were its inputs."""
        inputs = self.manifest["made_from"]
        return {f"{entry['stage']}/{entry['key']}" for entry in inputs if "stage" in entry}


def finished_stages() -> dict[str, FinishedStage]:
    """All finished stages by name, those at the root's address included."""
    finished = [FinishedStage(*item) for item in find_manifests().items()]
    return {stage.name: stage for stage in finished}


def ancestors(stages: Mapping[str, FinishedStage], starts: Iterable[str]) -> set[str]:
    """The stages `starts`, and all stages that they depend on, directly or indirectly."""
    reached = set(starts)
    waiting = list(reached)
    while waiting:
        parents = (stages[waiting.pop()].parents & stages.keys()) - reached
        reached |= parents
        waiting.extend(parents)
    return reached


def file_state(path: Path, recorded: ManifestEntry) -> str:
    """Whether a file (by its size) or a folder (by its content) still matches its manifest entry:
    "missing", "changed" or "present"."""
    if not path.exists():
        return "missing"
    if path.is_dir():
        return "present" if content_digest(path) == recorded["digest"] else "changed"
    return "present" if path.stat().st_size == recorded["bytes"] else "changed"


def find_runs(runs: Sequence[RecordedRun], query: str) -> list[RecordedRun]:
    """The variant runs that an id, a model, an alias or a run name (the newest match) refers to.

    For a flow run's parent run, these are the runs of its variants.

    Raises:
        UserError: nothing matches, or the run trained nothing.
    """
    model = query.removeprefix("models:/")
    matches = (
        [run for run in runs if query == run.id or model in run.models],
        [run for run in runs if any(name.endswith(f"@{query}") for name in run.models)],
        [run for run in runs if query in (run.name, run.short_name)][:1],
    )
    for matching in filter(None, matches):
        own = {run.id for run in matching}
        variants = [run for run in runs if run.stage and own & {run.id, run.parent}]
        if not variants:
            listed = ", ".join(f"{run.name!r} ({run.id})" for run in matching)
            raise UserError(f"Run {listed} did not train a model. Choose another run.")
        return variants
    names = ", ".join(dict.fromkeys(run.short_name for run in runs if run.stage)) or "none"
    raise UserError(
        f"MLflow has no run {query!r}. Give a run's id or name, a model version such as "
        f"bidaf-tiny/3, or an alias such as champion. Names of the runs: {names}."
    )


def required_stage(stages: Mapping[str, FinishedStage], run: RecordedRun) -> FinishedStage:
    """The stage that trained a run.

    Raises:
        UserError: the stage does not exist (any more).
    """
    for stage in stages.values():
        if stage.folder.name == run.stage:
            return stage
    digests = "; ".join(f"{name} {digest}" for name, digest in run.digests.items())
    raise UserError(
        f"Stage {run.stage} of run {run.name!r} ({run.status}) does not exist: it never finished, "
        f"or it was pruned. Digests of its inputs: {digests}."
    )


def parent_with_digest(
    stages: Mapping[str, FinishedStage], stage: FinishedStage, digest: str
) -> FinishedStage:
    """The parent of a stage whose content has this digest.

    Raises:
        UserError: the parent does not exist any more.
    """
    for name in stage.parents & stages.keys():
        if stages[name].manifest["digest"] == digest:
            return stages[name]
    raise UserError(f"An input of {stage.name} (digest {digest}) was pruned. Run its flow again.")
