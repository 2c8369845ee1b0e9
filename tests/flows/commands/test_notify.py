"""`bidaflow notify` after changes in Prefect; tests/integration has what it sends."""

from http.server import BaseHTTPRequestHandler

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.orchestration import get_client
from prefect.events.actions import DoNothing, SendNotification
from prefect.events.schemas.automations import AutomationCore
from prefect.settings import PREFECT_API_URL

from flows.commands.notify import NOTIFICATIONS, notify
from infra.errors import UserError
from tests.factories.http_server import http_server
from tests.factories.ports import free_port


class Pages(BaseHTTPRequestHandler):
    """Answers every request with a page, as the address of Prefect's pages does."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(b"<html></html>")


def test_server_must_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{free_port()}/api")
    with pytest.raises(UserError, match="No Prefect server responds"):
        notify("slack-webhook/team")


def test_pages_of_a_server_are_not_its_api(monkeypatch: pytest.MonkeyPatch) -> None:
    with http_server(Pages) as address:
        monkeypatch.setenv("PREFECT_API_URL", address)
        with pytest.raises(UserError, match=f"{address} has web pages, not .* ends in /api"):
            notify("slack-webhook/team")


@pytest.mark.heavy
def test_edited_automations_are_replaced(
    prefect_server: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = PREFECT_API_URL.value() or ""
    monkeypatch.setenv("PREFECT_API_URL", api)
    for name in ("first", "second"):
        CustomWebhookNotificationBlock(
            name=name, url="http://127.0.0.1:1/", json_data={"text": "{{body}}"}
        ).save(name)
    with pytest.raises(UserError, match="no block 'first'"):
        notify("first")
    notify("custom-webhook/first")
    with get_client(sync_client=True) as client:
        for name in NOTIFICATIONS:
            (automation,) = client.read_automations_by_name(name)
            edited = AutomationCore(
                name=name,
                enabled=name != "bidaflow: run failed",
                trigger=automation.trigger,
                actions=[
                    DoNothing(type="do-nothing")
                ],  # the client sends only fields that were set
            )
            client.update_automation(automation.id, edited)
        notify("custom-webhook/second")
        second = client.read_block_document_by_name("second", "custom-webhook").id
        replaced = {name: client.read_automations_by_name(name) for name in NOTIFICATIONS}
    for name, (automation,) in replaced.items():
        assert automation.enabled == (name != "bidaflow: run failed"), "paused ones stay paused"
        (action,) = automation.actions
        assert isinstance(action, SendNotification) and action.block_document_id == second
    assert f"To pause or remove them, open: {api.removesuffix('/api')}/automations" in (
        capsys.readouterr().out
    )
