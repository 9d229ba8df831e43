"""What people are told of: one table of automations, from events and states of runs to a notification.

Imports Prefect, so commands import this only when they run. What each alarm means and what to do is in the README.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from prefect.automations import AutomationCore
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ActionTypes, ChangeFlowRunState, DoNothing, SendNotification
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.exceptions import ObjectNotFound

from core.errors import Misconfigured
from deployments.schedules import DEPLOYMENT_TAG
from tasks.events import Happened

TAG = f"prefect.tag.{DEPLOYMENT_TAG}"
OURS: dict[str, str | list[str]] = {"prefect.resource.role": "tag", "prefect.resource.id": TAG}
# Runs say that they live every 30 seconds; three missed is dead.
SILENT = timedelta(seconds=100)
NIGHT_MISSED = timedelta(hours=26)
ENDINGS = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Crashed", "Cancelled")}
BODY = "{{ event.event }}: {{ event.resource.name }} {{ event.payload }}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One automation: its trigger, and what it does (None: it notifies whoever was named)."""

    name: str
    description: str
    trigger: EventTrigger
    action: ActionTypes | None = None


def of_event(happened: Happened, name: str, description: str) -> Alarm:
    """An alarm for an event of ours, for each tenant."""
    trigger = EventTrigger(
        expect={happened},
        for_each={"prefect.resource.id"},
        posture=Posture.Reactive,
        threshold=1,
        within=timedelta(0),
    )
    return Alarm(name=name, description=description, trigger=trigger)


def alarms() -> tuple[Alarm, ...]:
    """The table."""
    return (
        Alarm(
            name="memory: a run died",
            description="A run that says Running and has not said so for a while is marked Crashed.",
            trigger=EventTrigger(
                after={"prefect.flow-run.heartbeat"},
                expect={"prefect.flow-run.heartbeat", *ENDINGS},
                match={"prefect.resource.id": "prefect.flow-run.*"},
                match_related=OURS,
                for_each={"prefect.resource.id"},
                posture=Posture.Proactive,
                threshold=1,
                within=SILENT,
            ),
            action=ChangeFlowRunState(name=None, state=StateType.CRASHED, message="its process has died", force=False),
        ),
        Alarm(
            name="memory: a run failed",
            description="A run ended Failed or Crashed.",
            trigger=EventTrigger(
                expect={"prefect.flow-run.Failed", "prefect.flow-run.Crashed"},
                match={"prefect.resource.id": "prefect.flow-run.*"},
                match_related=OURS,
                posture=Posture.Reactive,
                threshold=1,
                within=timedelta(0),
            ),
        ),
        Alarm(
            name="memory: no night run",
            description="No nightly run was completed for more than a day.",
            trigger=EventTrigger(
                after={"prefect.flow-run.Completed"},
                expect={"prefect.flow-run.Completed"},
                match={"prefect.resource.id": "prefect.flow-run.*"},
                match_related={"prefect.resource.role": "deployment", "prefect.resource.name": "nightly"},
                posture=Posture.Proactive,
                threshold=1,
                within=NIGHT_MISSED,
            ),
        ),
        of_event(Happened.GATE_FAILED, "memory: a gate failed", "A new index was not swapped in; the old one serves."),
        of_event(Happened.BUDGET_REACHED, "memory: a budget is used up", "Embedding stopped cleanly; work waits."),
        of_event(Happened.SET_ASIDE, "memory: something was set aside", "Refused texts, or those that kill workers."),
        of_event(Happened.DRIFT_FOUND, "memory: drift was found", "Record and index disagreed; repairs are under way."),
        of_event(Happened.SWAPPED, "memory: an index was swapped", "For your information: a reindex is done."),
    )


def put_alarms(notify: str | None, table: Sequence[Alarm]) -> list[str]:
    """Make or bring up to date every automation; their names.

    `notify` is a notification block of the server, as type/name (slack-webhook/ops). Without one they do nothing but
    stand in the UI, where an action can be chosen; an action that was chosen there is kept, and so is a switch.
    """
    with get_client(sync_client=True) as client:
        block = None if notify is None else _block(client, notify)
        for alarm in table:
            _put(client, alarm, block)
    return [alarm.name for alarm in table]


def _put(client: SyncPrefectClient, alarm: Alarm, block: SendNotification | None) -> None:
    there = client.read_automations_by_name(alarm.name)
    actions = [(alarm.action or block or DoNothing()).model_dump(mode="json")]
    if there and alarm.action is None and block is None:
        actions = [one.model_dump(mode="json") for one in there[0].actions] or actions
    # From plain values, so that everything counts as given: the client leaves out what does not.
    automation = AutomationCore.model_validate(
        {
            "name": alarm.name,
            "description": alarm.description,
            "enabled": there[0].enabled if there else True,
            "tags": [DEPLOYMENT_TAG],
            "trigger": alarm.trigger.model_dump(mode="json"),
            "actions": actions,
        }
    )
    if there:
        client.update_automation(there[0].id, automation)
    else:
        client.create_automation(automation)


def _block(client: SyncPrefectClient, notify: str) -> SendNotification:
    kind, _, name = notify.partition("/")
    try:
        found = client.read_block_document_by_name(name, kind)
    except ObjectNotFound:
        raise Misconfigured(f"the Prefect server has no notification block {notify} (type/name)") from None
    return SendNotification(block_document_id=found.id, subject="Memory Engine", body=BODY)
