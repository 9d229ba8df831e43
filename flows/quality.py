"""The quality flow: what was imported, embedded and archived, by samples; it changes nothing."""

from __future__ import annotations

from typing import Annotated

from prefect import State, flow
from prefect.states import Completed, Failed
from pydantic import Field

from core.batch.quality import Report
from core.errors import Permanent
from tasks.engine import engine_kept_open, stop_soon
from tasks.quality import judge_samples, plan_quality
from tasks.seen import mark_run, named


@flow(name="quality", flow_run_name=named("quality"), persist_result=False)
def quality(
    tenants: Annotated[list[str] | None, Field(description="Only these tenants; none given: all, by turns")] = None,
) -> State[list[Report]]:
    """Judge samples by the suites, and keep the results as pages (data docs), a table and a link.

    Ends Failed when a suite failed, with the reports in the `reports` of the error's details.
    """
    with engine_kept_open():
        try:
            portions = plan_quality(tenants)
            mark_run("quality", [tenant for portion in portions for tenant in portion.tenants])
            reports = [judge_samples(portion) for portion in portions]
        except BaseException:
            stop_soon()
            raise
    reasons = "; ".join(one.reasons for one in reports if not one.passed)
    if not reasons:
        return Completed(message="completed", data=reports)
    return Failed(message=reasons, data=Permanent(reasons, reports=reports))


if __name__ == "__main__":
    quality()
