"""The closing report of a run: what each tenant has, what was done for it, what is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prefect import task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE

from tasks.boundary import RETRIES, RETRY_SECONDS, task_boundary, worth_retrying
from tasks.engine import shared_engine

REPORT_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What a run did for one tenant. `problem` says why it failed, if it did."""

    embedded: int
    seconds: float
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One tenant's line of the report: `records`, `waiting` and `set_aside` as they are now."""

    tenant: str
    records: int
    embedded: int
    waiting: int
    set_aside: int
    seconds: float
    problem: str | None = None


@task(
    name="closing report",
    task_run_name="closing report of {key}",
    retries=RETRIES,
    retry_delay_seconds=RETRY_SECONDS,
    retry_condition_fn=worth_retrying,
    timeout_seconds=REPORT_SECONDS,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def closing_report(key: str, efforts: Mapping[str, Effort], note: str | None = None) -> list[Row]:
    """A row a tenant, kept as the table artifact `key` (lower case, digits, dashes) with the note too."""
    with task_boundary("closing report"), shared_engine() as engine:
        idle = Effort(embedded=0, seconds=0.0)
        rows = [
            Row(
                tenant=one.tenant,
                records=one.records,
                embedded=efforts.get(one.tenant, idle).embedded,
                waiting=one.waiting,
                set_aside=one.set_aside,
                seconds=round(efforts.get(one.tenant, idle).seconds, 1),
                problem=efforts.get(one.tenant, idle).problem,
            )
            for one in engine.backlog()
        ]
        create_table_artifact(key=key, table=[_shown(row) for row in rows], description=note)
        return rows


def _shown(row: Row) -> dict[str, str | int | float]:
    return {
        "tenant": row.tenant,
        "records": row.records,
        "embedded": row.embedded,
        "waiting": row.waiting,
        "set aside": row.set_aside,
        "seconds": row.seconds,
        "problem": row.problem or "",
    }
