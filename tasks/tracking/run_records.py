"""Records of MLflow: its runs, and the models registered from them."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tasks.tracking.client import reading_client

# MLflow is imported locally, because it takes a second to load.


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


def recorded_runs(uri: str, include_deleted: bool = False) -> list[RecordedRun]:
    """All runs, newest first; with `include_deleted` also deleted runs that MLflow still has.

    Raises:
        UserError: the server does not respond.
    """
    from mlflow.entities import ViewType
    from mlflow.utils import get_results_from_paginated_fn

    client = reading_client(uri)
    if client is None:
        return []
    models = _models(client)
    view = ViewType.ALL if include_deleted else ViewType.ACTIVE_ONLY
    experiments = {e.experiment_id: e.name for e in client.search_experiments(view_type=view)}
    runs = get_results_from_paginated_fn(
        lambda size, token: client.search_runs(
            list(experiments), run_view_type=view, max_results=size, page_token=token
        ),
        max_results_per_page=1000,
    )
    records = [_recorded(run, experiments, models[run.info.run_id]) for run in runs]
    return sorted(records, key=lambda record: record.started, reverse=True)


def _recorded(run: Any, experiments: dict[str, str], models: tuple[str, ...]) -> RecordedRun:
    return RecordedRun(
        id=run.info.run_id,
        name=run.info.run_name,
        experiment=experiments[run.info.experiment_id],
        status=run.info.status,
        started=datetime.fromtimestamp(run.info.start_time / 1000, UTC).isoformat(" ", "minutes"),
        parent=run.data.tags.get("mlflow.parentRunId"),
        stage=run.data.tags.get("bidaflow.stage"),
        digests={k: v for k, v in run.data.tags.items() if k.endswith(".digest")},
        models=models,
    )


def _models(client: Any) -> dict[str, tuple[str, ...]]:
    """The model versions and aliases of each run, by run id."""
    from mlflow.utils import get_results_from_paginated_fn

    names: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    registered = get_results_from_paginated_fn(
        lambda size, token: client.search_registered_models(max_results=size, page_token=token),
        max_results_per_page=1000,
    )
    aliases = {model.name: model.aliases for model in registered}
    for model in get_results_from_paginated_fn(
        lambda size, token: client.search_model_versions(max_results=size, page_token=token),
        max_results_per_page=1000,
    ):
        version = str(model.version)
        own = [alias for alias, target in aliases[model.name].items() if str(target) == version]
        names[model.run_id] += (f"{model.name}/{version}", *(f"{model.name}@{a}" for a in own))
    return names
