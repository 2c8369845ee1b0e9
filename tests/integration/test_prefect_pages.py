"""Notifications, cancelling in a terminal, and all pages of `up` in a real browser."""

import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.settings import PREFECT_API_URL, temporary_settings

from infra.settings import CHECKOUT
from tests.factories.browser import PAGE_SECONDS, new_tab
from tests.factories.cli import BIDAFLOW, SMALL_VECTORS, write_learnable_dataset
from tests.factories.http import send_request
from tests.factories.receiver import Receiver, receiving_notifications
from tests.factories.services import Server, Services, command_lines_of, parameters, wait

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]

BLOCK = "custom-webhook/team"


@pytest.fixture(scope="module")
def server(services: Services) -> Server:
    return Server(services)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_learnable_dataset(tmp_path_factory.mktemp("data") / "seen")


@pytest.fixture(scope="module")
def receiver(services: Services) -> Iterator[Receiver]:
    """Receives what `bidaflow notify` has set up, twice."""
    with receiving_notifications() as opened:
        with temporary_settings({PREFECT_API_URL: f"{services.record.prefect_url}/api"}):
            block = CustomWebhookNotificationBlock(
                name="team", url=opened.url, json_data={"text": "{{subject}}\n{{body}}"}
            )
            block.save("team")
        for _ in range(2):
            done = services.run("notify", BLOCK)
            assert done.returncode == 0, done.stderr
        yield opened


@dataclass(frozen=True)
class Finished:
    """A run that has trained and promoted a model: its ids in Prefect and of its MLflow parent."""

    run_id: str
    mlflow_id: str
    experiment: str


@pytest.fixture(scope="module")
def finished(server: Server, dataset: Path, receiver: Receiver) -> Finished:
    run_id = server.start(parameters(dataset))
    assert server.ended(run_id) == "Completed", server.logs(run_id)
    (parent,) = server.mlflow_runs(run_id, "parent")
    return Finished(run_id, parent.info.run_id, parent.info.experiment_id)


def test_notifies_of_promotions_refusals_and_failures(
    services: Services, server: Server, finished: Finished, receiver: Receiver, dataset: Path
) -> None:
    promoted = wait("the promotion", lambda: receiver.text_with("seen: new champion"))
    assert "Version 1 (char) is now the champion: there was no champion before" in promoted
    (report,) = re.findall(r"^Report: (http://127\.0\.0\.1:\S+)$", promoted, re.M)
    assert report.endswith(f"/runs/{finished.mlflow_id}/artifacts/report.html")
    assert finished.run_id in promoted

    refused = server.start(parameters(dataset, 2, promotion={"min_gain": 100}))
    assert server.ended(refused) == "Completed"
    text = wait("the refusal", lambda: receiver.text_with("seen: not promoted"))
    assert "Version 2 (char) was not promoted: F1 " in text and refused in text

    failed = server.start(parameters(dataset / "nowhere"))
    text = wait("the failure", lambda: receiver.text_with("Refused: "))
    name = server.run(failed)["name"]
    assert text.startswith(f"retrain {name}: Failed\n") and failed in text
    assert len(receiver.texts) == 3, "one message for each, although it was set up twice"


def test_rejects_unknown_and_unsuitable_blocks(services: Services, tmp_path: Path) -> None:
    unknown = services.run("notify", "slack-webhook/nobody")
    assert unknown.returncode == 1 and "no block 'slack-webhook/nobody'" in unknown.stderr
    with temporary_settings({PREFECT_API_URL: f"{services.record.prefect_url}/api"}):
        from prefect.blocks.system import Secret

        Secret(value="x").save("word", overwrite=True)  # type: ignore[call-arg]
    unsuitable = services.run("notify", "secret/word")
    assert unsuitable.returncode == 1 and "can't send notifications" in unsuitable.stderr
    elsewhere = services.run("notify", BLOCK, BIDAFLOW_ROOT=str(tmp_path))
    assert elsewhere.returncode == 1 and "bidaflow up" in elsewhere.stderr


@pytest.mark.parametrize("how", ["in Prefect", "by Ctrl-C"])
def test_run_in_a_terminal_can_be_cancelled(
    services: Services, server: Server, dataset: Path, how: str, tmp_path: Path
) -> None:
    printed = tmp_path / "output"
    words = ["--variants", "baseline,char", "--training.epochs", "1000"]
    small = ["--training.hidden-size", "5", "--resources.cpus-per-worker", "1"]
    small += ["--vectors.source", SMALL_VECTORS]
    data = ["--data.dataset", str(dataset), "--data.validation-share", "0"]
    with printed.open("w") as output:
        process = subprocess.Popen(
            [BIDAFLOW, "retrain", *data, *words, *small],
            env=services.environment,
            cwd=CHECKOUT,
            stdout=output,
            stderr=output,
        )
    page = wait("the run", lambda: re.search(r"/flow-run/(\S+)", printed.read_text()))
    run_id = page[1]
    server.wait_for_training(run_id)
    if how == "in Prefect":
        state = {"state": {"type": "CANCELLING"}}
        send_request("POST", f"{server.api}/flow_runs/{run_id}/set_state", state)
    else:
        process.send_signal(signal.SIGINT)
    assert process.wait(timeout=300) == 1
    text = printed.read_text()
    assert "Cancelled. Started again, the run" in text
    assert not re.search("Traceback|NoneType|out of memory", text), text
    assert server.ended(run_id) == "Cancelled"
    runs = [*server.mlflow_runs(run_id), *server.mlflow_runs(run_id, "parent")]
    assert [run.info.status for run in runs] == ["KILLED"] * 3
    states = {task["state_name"] for task in server.task_runs(run_id)}
    assert "Cancelled" in states and states <= {"Completed", "Cached", "Cancelled"}, states
    assert command_lines_of(run_id) == []


@pytest.fixture
def tab(chromium: Browser) -> Iterator[Page]:
    opened = new_tab(chromium, 1280, 860)
    yield opened
    opened.close()


@pytest.mark.browser
def test_no_page_requests_anything_outside(
    services: Services, server: Server, finished: Finished, tab: Page
) -> None:
    """Requests that the browser itself blocks are not sent, and do not reach the route."""
    hosts: set[str | None] = set()

    def record(route: Route) -> None:
        hosts.add(urlsplit(route.request.url).hostname)
        route.continue_()

    tab.context.route("**/*", record)
    prefect, mlflow = services.record.prefect_url, services.record.mlflow_url
    deployment = f"{prefect}/deployments/deployment/{server.retrain}"
    run = f"{mlflow}/#/experiments/{finished.experiment}/runs/{finished.mlflow_id}"
    texts = {
        f"{prefect}/runs": "retrain",
        f"{prefect}/deployments": "compare-variants",
        f"{deployment}?tab=Runs": "retrain",
        f"{deployment}/run": "Submit",
        f"{prefect}/runs/flow-run/{finished.run_id}": "Completed",
        f"{prefect}/automations/create": "Trigger",
        f"{prefect}/blocks/catalog": "Slack Webhook",  # its logo is on another site
        f"{prefect}/settings": "Settings",
        f"{prefect}/v2/dashboard": "Dashboard",  # asks for analytics settings
        f"{mlflow}/#/experiments": "bidaflow/seen",
        f"{mlflow}/#/experiments/{finished.experiment}/runs": server.run(finished.run_id)["name"],
        run: "dev/f1",
        f"{mlflow}/#/models": "bidaf-seen",
        f"{mlflow}/#/settings/general": "telemetry",
    }
    for url, text in texts.items():
        tab.goto(url)
        shown = expect(tab.locator("body"))
        shown.to_contain_text(text, use_inner_text=True, timeout=PAGE_SECONDS * 1000)
        tab.wait_for_timeout(1_500)
    assert hosts == {"127.0.0.1"}


@pytest.mark.browser
def test_links_lead_from_prefect_to_mlflow_and_back(
    services: Services, server: Server, finished: Finished, tab: Page
) -> None:
    name = str(server.run(finished.run_id)["name"])
    tab.goto(f"{services.record.prefect_url}/runs/flow-run/{finished.run_id}")
    tab.get_by_text("Artifacts", exact=True).click()
    link = tab.get_by_role("link", name="This run in MLflow").first
    tab.goto(str(link.get_attribute("href")))
    tab.get_by_role("heading", name=name).first.wait_for()
    tab.goto(str(tab.get_by_role("link", name="Prefect flow run").first.get_attribute("href")))
    tab.get_by_text("Completed").first.wait_for()
    assert finished.run_id in tab.url and name in tab.locator("body").inner_text()


@pytest.mark.browser
def test_links_lead_to_the_report_in_mlflow(server: Server, finished: Finished, tab: Page) -> None:
    """MLflow shows a report in a frame that runs scripts, but opens no links."""
    (url,) = re.findall(r"\((http\S+)\)", server.artifacts(finished.run_id)["report"])
    tab.goto(url)
    report = tab.frame_locator("iframe")
    report.get_by_role("heading", name="This run").wait_for()
    assert report.locator("figure svg").first.bounding_box()
    report.get_by_text("MLflow opens no links in this page").wait_for()
    errors = report.get_by_role("link", name="errors").first.get_attribute("href")
    tab.goto(str(errors))
    tab.reload()  # only the fragment of the address has changed
    tab.frame_locator("iframe").get_by_role("link", name="all variants of this run").wait_for()
