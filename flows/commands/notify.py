"""Send notifications about failed runs and about decisions on models, by automations of Prefect."""

import os
from datetime import timedelta
from typing import Annotated

from cyclopts import Parameter
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import BlockDocument
from prefect.events.actions import SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound

from flows.commands.terminal import show
from flows.common.promote import PROMOTED, REFUSED, RESOURCE
from infra.errors import UserError
from infra.services.prefect_api import require_access

LINKS = "Report: {{ event.payload.report }}\nRun: {{ event.payload.flow_run }}"
# Per automation: the events, the id of their resource, and the notification's subject and text.
NOTIFICATIONS = {
    "bidaflow: run failed": (
        {f"prefect.flow-run.{state}" for state in ("Failed", "Crashed", "TimedOut")},
        "prefect.flow-run.*",
        "{{ flow.name }} {{ flow_run.name }}: {{ flow_run.state.name }}",
        "{{ flow_run.state.message }}\nRun: {{ flow_run|ui_url }}",
    ),
    "bidaflow: model promoted": (
        {PROMOTED},
        f"{RESOURCE}.*",
        "{{ event.payload.dataset }}: new champion",
        f"{{{{ event.payload.decision }}}}\n{LINKS}",
    ),
    "bidaflow: model not promoted": (
        {REFUSED},
        f"{RESOURCE}.*",
        "{{ event.payload.dataset }}: not promoted",
        f"{{{{ event.payload.decision }}}}\n{LINKS}",
    ),
}


def notify(
    block: Annotated[
        str,
        Parameter(
            help="Notification block of Prefect that sends them: its type and name, such as "
            "slack-webhook/team.",
            metavar="TYPE/NAME",
        ),
    ],
    /,
) -> None:
    """Send notifications of failed runs, promotions and refusals by a block from now on.

    Prefect's automations list, pause and remove them. Those that were paused stay paused.

    Raises:
        UserError: no server runs, or it refuses access, or it has no such block, or the block can't
            send notifications.
    """
    api = os.environ.get("PREFECT_API_URL")
    if not api:
        raise UserError("Notifications need the Prefect server. Start it with: bidaflow up")
    require_access(api)
    pages = api.removesuffix("/api")
    with get_client(sync_client=True) as client:
        document = _find_block(client, block, pages)
        for name in NOTIFICATIONS:
            _replace(client, name, document)
    show(
        f"Failures, promotions and refusals are sent by {block}.",
        f"To pause or remove them, open: {pages}/automations",
    )


def _find_block(client: SyncPrefectClient, block: str, pages: str) -> BlockDocument:
    """The block of a type and name; `pages` is the URL of the server's UI, for error messages."""
    kind, _, name = block.partition("/")
    try:
        document = client.read_block_document_by_name(name, kind, include_secrets=False)
    except ObjectNotFound as error:
        raise UserError(
            f"Prefect has no block {block!r}. Create it at "
            f"{pages}/blocks/catalog, or choose another one."
        ) from error
    if document.block_schema is None or "notify" not in document.block_schema.capabilities:
        raise UserError(
            f"Block {block!r} can't send notifications. Choose one of a type with the capability "
            f"`notify`: {pages}/blocks/catalog?capability=notify"
        )
    return document


def _replace(client: SyncPrefectClient, name: str, block: BlockDocument) -> None:
    """Create an automation instead of those of its name, paused if one of them was."""
    existing = client.read_automations_by_name(name)
    for automation in existing:
        client.delete_automation(automation.id)
    events, resource, subject, body = NOTIFICATIONS[name]
    trigger = EventTrigger(
        # The client sends only fields that were set, and the server needs all of these.
        type="event",
        posture=Posture.Reactive,
        threshold=1,
        within=timedelta(),
        expect=events,
        match={"prefect.resource.id": resource},
    )
    action = SendNotification(
        type="send-notification", block_document_id=block.id, subject=subject, body=body
    )
    client.create_automation(
        AutomationCore(
            name=name,
            description="Made by `bidaflow notify`, which may overwrite changes",
            enabled=all(automation.enabled for automation in existing),
            trigger=trigger,
            actions=[action],
        )
    )
