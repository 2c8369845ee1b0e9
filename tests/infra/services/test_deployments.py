"""The deployments of prefect.yaml on a Prefect server, and the environment of the services."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import (
    DeploymentScheduleCreate,
    DeploymentUpdate,
    WorkPoolCreate,
    WorkPoolUpdate,
)
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule, RRuleSchedule
from prefect.flows import load_flow_from_entrypoint
from prefect.settings import PREFECT_API_URL

from infra.errors import UserError
from infra.services.deployments import TAG, command_environment, deploy
from infra.settings import CHECKOUT, settings


def test_services_share_the_callers_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They run in the checkout, where a relative folder would be another one."""
    names = {"ROOT": "runs", "MIRROR": "data", "CACHE": "cache", "JOB_TEMPLATE": "template.json"}
    monkeypatch.chdir(tmp_path)
    for name, folder in names.items():
        monkeypatch.setenv(f"BIDAFLOW_{name}", folder)
    (tmp_path / "template.json").touch()
    environment = command_environment()
    for name, folder in names.items():
        assert environment[f"BIDAFLOW_{name}"] == str(tmp_path.resolve() / folder)


def test_every_deployment_has_an_entrypoint() -> None:
    """With valid parameters, also those of its schedules, but for the data, which a user names."""
    file = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text(encoding="utf-8"))
    for deployment in file["deployments"]:
        loaded = load_flow_from_entrypoint(str(CHECKOUT / deployment["entrypoint"]))
        for section in (deployment, *deployment.get("schedules", [])):
            parameters = section.get("parameters", {})
            missing = set(loaded.parameters.required) - parameters.keys()
            assert missing <= {"data", "files", "members"}
            if not missing:
                loaded.validate_parameters(parameters)


@pytest.mark.heavy
@pytest.mark.usefixtures("prefect_server")
def test_what_people_changed_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deployments of others, the pool, and editable fields that prefect.yaml has not changed."""
    monkeypatch.setenv("PREFECT_API_URL", PREFECT_API_URL.value() or "")
    schema = {"type": "object", "properties": {"day": {"type": "string", "title": "day"}}}
    with get_client(sync_client=True) as client:
        flow = client.create_flow_from_name("nightly")
        others = [
            client.create_deployment(flow, "train", entrypoint="other/flow.py:nightly"),
            client.create_deployment(flow, "nightly", parameter_openapi_schema=schema),
        ]
        before = [client.read_deployment(deployment) for deployment in others]
        try:
            deploy()
            changed = {"variants": ["char"]}
            retrain = client.read_deployment_by_name("retrain/retrain")
            client.update_deployment(retrain.id, DeploymentUpdate(parameters=changed, paused=True))
            client.create_deployment_schedules(retrain.id, SCHEDULES)
            schedules = plain_schedules(client.read_deployment(retrain.id))
            duplicate = client.create_deployment(
                retrain.flow_id, "mine", entrypoint=retrain.entrypoint, tags=[TAG]
            )
            changes = WorkPoolUpdate(is_paused=True, concurrency_limit=1)
            client.update_work_pool(settings().work_pool, changes)
            file = root / "deployments.json"
            sections = json.loads(file.read_text())
            sections["retrain"]["paused"] = "as if prefect.yaml had been edited since"
            file.write_text(json.dumps(sections))
            deploy()
            after = client.read_deployment(retrain.id)
            assert after.parameters == changed and not after.paused
            assert plain_schedules(after) == schedules and len(schedules) == 4
            form = after.parameter_openapi_schema
            assert client.read_deployment(duplicate).parameter_openapi_schema == form != {}
            pool = client.read_work_pool(settings().work_pool)
            assert pool.is_paused and pool.concurrency_limit == 1
            assert [client.read_deployment(deployment) for deployment in others] == before
        finally:
            for deployment in client.read_deployments():
                if TAG in deployment.tags or deployment.id in others:
                    client.delete_deployment(deployment.id)


SCHEDULES = [
    DeploymentScheduleCreate(schedule=schedule, active=False, parameters={"effort": "fast"})
    for schedule in (
        CronSchedule(cron="30 5 * * 2", timezone="Asia/Tokyo", day_or=False),
        IntervalSchedule(interval=timedelta(hours=36), timezone="Europe/Paris"),
        RRuleSchedule(rrule="DTSTART:20260105T030000\nRRULE:FREQ=WEEKLY", timezone="UTC"),
    )
]


def plain_schedules(deployment: DeploymentResponse) -> list[str]:
    """What people can set of a deployment's schedules, in a fixed order."""
    fields = {"schedule", "active", "parameters", "slug"}
    return sorted(str(s.model_dump(include=fields)) for s in deployment.schedules)


@pytest.mark.heavy
@pytest.mark.usefixtures("prefect_server", "root")
def test_deployments_on_kubernetes_are_not_moved_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", PREFECT_API_URL.value() or "")
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="far", type="kubernetes"))
        flow = client.create_flow_from_name("retrain")
        deployment = client.create_deployment(flow, "retrain", tags=[TAG], work_pool_name="far")
        try:
            with pytest.raises(UserError, match="run on Kubernetes, in its work pool far"):
                deploy()
            assert client.read_deployment(deployment).work_pool_name == "far"
        finally:
            client.delete_deployment(deployment)
            client.delete_work_pool("far")
