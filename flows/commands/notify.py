"""Send notifications about failed runs and about decisions on models, by automations of Prefect."""

import os
from collections.abc import Collection
from datetime import timedelta
from typing import Annotated
from uuid import UUID

from cyclopts import Parameter
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import BlockDocument
from prefect.events.actions import SendNotification
from prefect.events.schemas.automations import Automation, AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound

from flows.commands.terminal import show
from flows.common.promote import PROMOTED, REFUSED, RESOURCE
from infra.errors import UserError
from infra.services.prefect_status import require_access

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
    *,
    block: Annotated[
        str | None,
        Parameter(
            help="Notification block of Prefect that sends them: its type and name, such as "
            "slack-webhook/team.",
            metavar="TYPE/NAME",
        ),
    ] = None,
    remove: Annotated[bool, Parameter(help="Remove all notifications.", negative=())] = False,
) -> None:
    """List the notifications; with --block, send them by that block from now on.

    Automations that were paused in Prefect stay paused.

    Raises:
        UserError: no server runs, or it refuses access, or it has no such block, or the block can't
            send notifications.
    """
    if block and remove:
        raise UserError("Use either --block or --remove.")
    api = os.environ.get("PREFECT_API_URL")
    if not api:
        raise UserError("Notifications need the Prefect server. Start it with: bidaflow up")
    require_access(api)
    with get_client(sync_client=True) as client:
        document = _find_block(client, block, api.removesuffix("/api")) if block else None
        existing = _existing(client)
        if remove or document:
            for automation in existing:
                client.delete_automation(automation.id)
        if document:
            _create(client, document, {a.name for a in existing if not a.enabled})
        if remove:
            print(f"Removed {len(existing)} notifications.")
        elif lines := [_line(client, automation) for automation in _existing(client)]:
            show(*lines)
        else:
            print("No notifications. Send them with: bidaflow notify --block TYPE/NAME")


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


def _create(client: SyncPrefectClient, block: BlockDocument, paused: Collection[str]) -> None:
    """Create the automations; those whose names are in `paused` send nothing yet."""
    for name, (events, resource, subject, body) in NOTIFICATIONS.items():
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
                enabled=name not in paused,
                trigger=trigger,
                actions=[action],
            )
        )


def _existing(client: SyncPrefectClient) -> list[Automation]:
    return [
        automation for name in NOTIFICATIONS for automation in client.read_automations_by_name(name)
    ]


def _line(client: SyncPrefectClient, automation: Automation) -> str:
    """An automation, the blocks by which it sends notifications, and whether it is paused."""
    ids = [
        action.block_document_id
        for action in automation.actions
        if isinstance(action, SendNotification)
    ]
    blocks = ", ".join(_block(client, id) for id in ids) or "sends nothing"
    return f"{automation.name:<29}{blocks}{'' if automation.enabled else ' (paused)'}"


def _block(client: SyncPrefectClient, block_id: UUID) -> str:
    """The type and the name of a block, which may have been deleted."""
    try:
        document = client.read_block_document(block_id, include_secrets=False)
    except ObjectNotFound:
        return "sends nothing, as its block was deleted"
    kind = document.block_type.slug if document.block_type else ""
    return f"{kind}/{document.name}"
