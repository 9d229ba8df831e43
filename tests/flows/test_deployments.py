"""The table of deployments against a real Prefect server: schedules, forms, overlap, late runs, crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prefect.automations import AutomationCore
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Completed, Pending, Running, Scheduled

from core.errors import Misconfigured
from deployments.automations import alarms, put_alarms
from deployments.schedules import TABLE, Deployment
from deployments.serving import built, flow_of, put_on_server, ready, runner_of
from tasks.events import Happened

ROWS = {one.name: one for one in TABLE}


def on_server(client: SyncPrefectClient, one: Deployment) -> Any:
    """The row as the server has it."""
    return client.read_deployment_by_name(f"{flow_of(one).name}/{one.name}")


def runs(client: SyncPrefectClient, asked: list[FlowRun]) -> list[FlowRun]:
    """These runs as they are now, in the order they were asked for."""
    found = client.read_flow_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[one.id for one in asked])))
    return sorted(found, key=lambda one: [run.id for run in asked].index(one.id))


def test_the_server_has_every_row_as_the_table_says_however_often_it_is_put_there(server: SyncPrefectClient) -> None:
    put_on_server(pool="a-pool")
    put_on_server([ROWS["nightly"], ROWS["erase"]], pool="a-pool")
    for one in TABLE:
        found = on_server(server, one)
        assert (found.description, sorted(found.tags)) == (one.description, sorted(one.tags))
        assert found.work_pool_name == "a-pool"
        assert [schedule.schedule.cron for schedule in found.schedules] == ([one.cron] if one.cron else [])
        assert [schedule.schedule.timezone for schedule in found.schedules] == (["UTC"] if one.cron else [])
        assert found.parameters == dict(one.parameters)
        if one.once:
            assert found.global_concurrency_limit.limit == 1
            assert found.concurrency_options.collision_strategy == "CANCEL_NEW"
        else:
            assert found.global_concurrency_limit is None


def test_what_a_person_paused_stays_paused(server: SyncPrefectClient) -> None:
    put_on_server([ROWS["nightly"]], pool=None)
    server._client.post(f"/deployments/{on_server(server, ROWS['nightly']).id}/pause_deployment").raise_for_status()
    put_on_server([ROWS["nightly"]], pool=None)
    assert on_server(server, ROWS["nightly"]).paused
    server._client.post(f"/deployments/{on_server(server, ROWS['nightly']).id}/resume_deployment").raise_for_status()
    put_on_server([ROWS["nightly"]], pool=None)
    assert not on_server(server, ROWS["nightly"]).paused


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_parameter_of_a_form_has_a_help_text(name: str) -> None:
    form = built(ROWS[name])._parameter_openapi_schema.properties
    assert form
    assert {parameter: bool(one.get("description")) for parameter, one in form.items()} == dict.fromkeys(form, True)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("erase", {"tenant": "anna", "kind": "everything"}),
        ("erase", {"tenant": "", "kind": "all"}),
        ("erase", {"kind": "all"}),
        ("reindex", {"model": ""}),
        ("reindex", {"model": "small", "at_rate": 0}),
        ("reindex", {"model": "small", "max_cost": -1}),
        ("recover", {"max_pieces": 0}),
        ("embed", {"lane": "fast"}),
    ],
)
def test_the_server_refuses_parameters_that_make_no_sense(
    server: SyncPrefectClient, name: str, wrong: dict[str, Any]
) -> None:
    put_on_server([ROWS[name]], pool=None)
    with pytest.raises(PrefectHTTPStatusError, match=r"Validation failed|422|409"):
        server.create_flow_run_from_deployment(on_server(server, ROWS[name]).id, parameters=wrong)


def test_a_second_run_of_the_same_chore_ends_at_once_and_the_third_works(server: SyncPrefectClient) -> None:
    put_on_server([ROWS["snapshot"]], pool=None)
    deployment = on_server(server, ROWS["snapshot"]).id
    first, second = (server.create_flow_run_from_deployment(deployment) for _ in range(2))
    assert server.set_flow_run_state(first.id, Pending()).state.is_pending()
    assert server.set_flow_run_state(second.id, Pending()).state.is_cancelled()
    assert server.set_flow_run_state(first.id, Running()).state.is_running()
    server.set_flow_run_state(first.id, Completed())
    third = server.create_flow_run_from_deployment(deployment)
    assert server.set_flow_run_state(third.id, Pending()).state.is_pending()
    server.set_flow_run_state(third.id, Completed(), force=True)


def test_after_an_outage_one_late_run_works_and_the_others_end_without_beginning(
    server: SyncPrefectClient, home: Path
) -> None:
    row = replace(ROWS["batch-lane"], name="batch-lane-after-an-outage")
    put_on_server([row], pool=None)
    deployment = on_server(server, row).id
    due = datetime.now(UTC) - timedelta(minutes=10)
    late = [
        server.create_flow_run_from_deployment(deployment, state=Scheduled(scheduled_time=due + timedelta(minutes=one)))
        for one in range(4)
    ]
    runner = runner_of([row], name="late", at_once=5, look_every=1)
    asyncio.run(runner.start(run_once=True))
    ends = [str(one.state_name) for one in runs(server, late)]
    assert sorted(ends) == ["Cancelled", "Cancelled", "Cancelled", "Completed"]


def test_nothing_is_put_on_a_server_that_ends_with_the_command() -> None:
    with temporary_settings({PREFECT_API_URL: None}), pytest.raises(Misconfigured, match="PREFECT_API_URL"):
        ready()


def test_automations_are_put_there_once_and_what_a_person_chose_is_kept(server: SyncPrefectClient) -> None:
    table = alarms()
    for _ in range(2):
        put_alarms(None, table)
    for alarm in table:
        (found,) = server.read_automations_by_name(alarm.name)
        assert (found.description, found.enabled) == (alarm.description, True)
    (failed,) = server.read_automations_by_name("memory: a run failed")
    plain = failed.model_dump(mode="json", include={"name", "description", "tags", "trigger"})
    chosen = AutomationCore.model_validate({**plain, "actions": [{"type": "cancel-flow-run"}], "enabled": False})
    server.update_automation(failed.id, chosen)
    put_alarms(None, table)
    (kept,) = server.read_automations_by_name("memory: a run failed")
    assert ([one.type for one in kept.actions], kept.enabled) == (["cancel-flow-run"], False)
    (died,) = server.read_automations_by_name("memory: a run died")
    assert [one.type for one in died.actions] == ["change-flow-run-state"]


def test_every_event_that_is_told_has_its_automation() -> None:
    expected = {event for alarm in alarms() for event in alarm.trigger.expect}
    assert {str(one) for one in Happened} <= expected


def test_a_notification_block_that_is_not_there_is_named(server: SyncPrefectClient) -> None:
    with pytest.raises(Misconfigured, match="slack-webhook/ops"):
        put_alarms("slack-webhook/ops", alarms())


def test_a_run_that_says_running_for_ever_keeps_nobody_from_the_work(
    server: SyncPrefectClient, remember: Callable[[str, int], None]
) -> None:
    """Its process and its runner are gone: only Prefect believes in it, and what it held was ours to give back."""
    from flows.embed import embed

    put_on_server([ROWS["embed"]], pool=None)
    dead = server.create_flow_run_from_deployment(on_server(server, ROWS["embed"]).id)
    server.set_flow_run_state(dead.id, Pending())
    server.set_flow_run_state(dead.id, Running())
    remember("anna", 3)
    state = embed(return_state=True)
    assert (state.is_completed(), [run.report.embedded for run in state.result()]) == (True, [3])
    assert server.read_flow_run(dead.id).state.is_running()
    server.set_flow_run_state(dead.id, Completed(), force=True)
