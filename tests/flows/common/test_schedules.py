"""A deployment's run without a dataset is refused."""

from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun

from flows.common.schedules import check_deployed_run
from infra.errors import UserError


def run_with(parameters: dict[str, Any], scheduled: bool = True) -> FlowRun:
    return FlowRun(
        flow_id=uuid4(), deployment_id=uuid4(), parameters=parameters, auto_scheduled=scheduled
    )


@pytest.mark.parametrize(
    "parameters", [{}, {"data": {}}, {"data": {"dev_share": 0.2}}, {"variants": ["char"]}]
)
def test_schedule_without_dataset_is_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"schedule without a dataset \(data\.dataset\)"):
        check_deployed_run("retrain", run_with(parameters))


def test_comparison_without_data_is_refused() -> None:
    with pytest.raises(UserError, match="lost its parameters"):
        check_deployed_run("compare-variants", run_with({"data": [{"dataset": "tiny"}, {}]}))


@pytest.mark.parametrize(
    "data", [{"dataset": "tiny"}, {"train_files": ["a.json"]}, ["tiny", {"dataset": "own"}]]
)
def test_schedule_with_a_dataset_is_accepted(data: Any) -> None:
    check_deployed_run("retrain", run_with({"data": data}))


def test_quick_run_is_refused() -> None:
    with pytest.raises(UserError, match=r"no dataset \(data\.dataset\).* custom run.* to tiny"):
        check_deployed_run("retrain", run_with({}, scheduled=False))


def test_terminals_and_other_flows_need_no_dataset() -> None:
    check_deployed_run("retrain", FlowRun(flow_id=uuid4(), parameters={}))
    check_deployed_run("train-embeddings", run_with({}))
