"""The erase flow: what a person asks to be erased, out of every store, with a receipt."""

from __future__ import annotations

from typing import Annotated

from prefect import State, flow
from prefect.states import Completed, Failed
from pydantic import Field

from core.batch.erase import Report
from core.errors import Transient
from core.model.erasure import Kind, Request
from tasks.engine import engine_kept_open, stop_soon
from tasks.erase import erase_all_of
from tasks.seen import mark_run, row_of, show_table


@flow(name="erase", flow_run_name="erase {tenant}: {kind}", persist_result=False)
def erase(
    tenant: Annotated[str, Field(min_length=1, description="Whose memories")],
    kind: Annotated[Kind, Field(description="An id, a session, a subject, or all of the tenant")],
    value: Annotated[str, Field(description="Which id, session or subject; empty for all")] = "",
) -> State[Report]:
    """Erase for good. Can be stopped and run again; run again after its end, it looks again and confirms.

    Ends Failed while a store is out of reach or something is still there: there is no receipt of success then.
    """
    with engine_kept_open():
        mark_run("erase", [tenant], kind)
        try:
            report = erase_all_of(Request(tenant=tenant, kind=kind, value=value))
        except BaseException:
            stop_soon()
            raise
    outcome = "not erased yet" if report.receipt is None else str(report.receipt["outcome"])
    show_table("erase-report", [{"kind": str(kind), **row_of(report), "outcome": outcome}])
    if report.receipt is None:
        message = f"{outcome}: {report.postponed}"
        return Failed(message=message, data=Transient(message, report=report))
    if outcome == "not gone":
        return Failed(message=outcome, data=Transient("something is still there: run it again", report=report))
    return Completed(message=outcome, data=report)
