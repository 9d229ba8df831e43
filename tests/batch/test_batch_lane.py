"""The batch lane, against a provider with every ending: what was paid for is kept, what was not is sent again."""

from __future__ import annotations

from core.model.batch import JobState
from tests.batch.batch_engine import Lane


def numbers(count: int) -> list[str]:
    return [f"m{number}" for number in range(count)]


def test_everything_that_waits_goes_by_a_job_and_no_request_of_its_own(lane: Lane) -> None:
    lane.remember(*numbers(50))
    report = lane.submit()
    assert (report.entries, report.texts, len(report.jobs)) == (50, 50, 1)
    assert lane.waiting() == (50, 50, 0)
    assert lane.drain().worked == 0
    (followed,) = lane.follow()
    assert followed.state is JobState.RUNNING
    lane.provider.finish()
    (followed,) = lane.follow()
    assert (followed.state, followed.kept) == (JobState.INGESTED, 50)
    assert lane.waiting() == (50, 0, 0)
    assert lane.drain().embedded == 50
    assert lane.online() == []
    assert lane.waiting() == (0, 0, 0)
    lane.assert_in_step()
