"""A reindex by the provider's batch jobs: what is fed is for jobs alone, and online writes do not wait for them."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from core.batch import reindex
from core.batch.batch_lane import NO_ROOM, Submitted, Submitting, step
from core.batch.reindex import Job, Report
from core.model.memory import Draft
from core.model.reindex import SwapOutcome
from core.ports import BatchLimits
from tests.batch.batch_engine import Lane

WIDTH = 48
WAIT = timedelta(hours=25)


def begun(lane: Lane, count: int) -> Job:
    """Memories in an index of 32 dimensions, and a new one of another width registered."""
    lane.remember(*[f"m{number}" for number in range(count)])
    lane.drain()
    lane.provider.server.requests.clear()
    space = lane.engine.space_of("text-embedding-3-small", WIDTH)
    job = reindex.begin(lane.engine.reindex_work(), "t", space, uuid.uuid4())
    assert job is not None
    return job


def feed(lane: Lane, job: Job, ahead: int = 1000) -> Report:
    work = replace(lane.engine.reindex_work(), ahead=ahead, batch_wait=WAIT)
    return reindex.step(work, job)


def submit(lane: Lane, job: Job) -> Submitted:
    piece = Submitting(tenant="t", records=1000, generation=job.generation.number)
    return step(lane.engine.batch_work(), piece)


def limited(lane: Lane, job: Job, limits: BatchLimits) -> None:
    """The provider takes no more than this in a job of the new model."""
    batches = lane.engine._stores.models.batches_of(job.generation.space)
    batches._limits = limits  # type: ignore[union-attr]


def test_what_is_fed_goes_into_jobs_and_no_other_run_embeds_it_at_the_full_price(lane: Lane) -> None:
    job = begun(lane, 12)
    assert feed(lane, job).fed == 12
    assert lane.drain().worked == 0  # a run of the embed chore beside it
    assert submit(lane, job).entries == 12
    assert lane.drain().worked == 0
    assert lane.online() == []
    lane.provider.finish()
    assert [one.kept for one in lane.follow()] == [12]
    report = lane.drain()
    assert (report.embedded, report.worked) == (12, 12)
    assert feed(lane, job).done
    verdict = reindex.verify(lane.engine.reindex_work(), job, random.Random(1), datetime.now(UTC))
    assert verdict.passed, verdict.reasons
    assert reindex.swap(lane.engine.reindex_work(), job, timedelta(hours=1)) is SwapOutcome.SWAPPED
    assert lane.engine.search("t", "a note about m7", 1).found[0].memory.id == "m7"


def test_a_write_while_jobs_are_under_way_is_found_by_meaning_at_once(lane: Lane) -> None:
    job = begun(lane, 3)
    feed(lane, job)
    submit(lane, job)
    lane.engine.write("t", Draft(id="m1", content="another text altogether"))
    lane.engine.write("t", Draft(id="new", content="a text nobody has seen"))
    assert submit(lane, job).entries == 0  # not for jobs: its fed entries are, and nothing else
    assert lane.drain().embedded == 4  # two, in both indexes
    assert sorted(lane.online()) == sorted(["a text nobody has seen", "another text altogether"] * 2)
    lane.provider.finish()
    lane.follow()
    assert lane.drain().embedded == 2
    assert feed(lane, job).done


def test_what_expired_goes_into_the_next_job_and_not_the_normal_way(lane: Lane) -> None:
    job = begun(lane, 4)
    feed(lane, job)
    submit(lane, job)
    lane.provider.finish("expired", fate=lambda number, text: "fine" if number < 1 else "batch_expired")
    lane.follow()
    assert lane.drain().worked == 1
    assert submit(lane, job).entries == 3
    assert lane.online() == []
    lane.provider.finish()
    lane.follow()
    assert lane.drain().worked == 3
    assert feed(lane, job).done


def test_after_three_tries_or_the_set_wait_it_goes_the_normal_way(lane: Lane) -> None:
    job = begun(lane, 2)
    feed(lane, job)
    for _ in range(3):
        assert submit(lane, job).entries == 2
        lane.provider.finish("expired", fate=lambda number, text: "batch_expired")
        lane.follow()
    assert submit(lane, job).entries == 0
    assert lane.drain().embedded == 2
    lane.remember("later", text="written before the wait is over")
    lane.run("UPDATE outbox SET ready_at = now(), batch_until = now(), batch_seq = seq, batch_fed = true")
    assert submit(lane, job).entries == 0
    assert lane.drain().embedded == 2
    assert feed(lane, job).done


def test_what_finds_no_room_in_jobs_waits_for_the_next_one(lane: Lane) -> None:
    job = begun(lane, 6)
    limited(lane, job, BatchLimits(inputs=4, bytes=100_000))
    assert feed(lane, job, ahead=5).fed == 5
    assert submit(lane, job).entries == 4
    assert lane.drain().worked == 0  # the fifth is kept for a job
    assert feed(lane, job, ahead=5).fed == 1  # what is in jobs does not count as waiting to be sent
    limited(lane, job, BatchLimits(inputs=4, bytes=100_000, tokens=1))
    assert submit(lane, job).postponed == NO_ROOM
    assert lane.drain().worked == 0
    limited(lane, job, BatchLimits(inputs=4, bytes=100_000))
    assert submit(lane, job).entries == 2
    assert lane.online() == []


def test_an_entry_that_workers_died_over_is_left_to_the_normal_lane(lane: Lane) -> None:
    job = begun(lane, 3)
    feed(lane, job)
    lane.run("UPDATE outbox SET attempts = 2 WHERE memory_id = 'm1' AND generation = 2")
    assert submit(lane, job).entries == 2
    assert lane.drain().embedded == 1
    assert lane.online() == ["a note about m1"]


def test_a_cancelled_job_frees_what_waits_for_it_for_the_normal_lane(lane: Lane) -> None:
    job = begun(lane, 3)
    feed(lane, job)
    submit(lane, job)
    (sent,) = lane.engine.batch_jobs(open_only=True)
    assert lane.engine.cancel_batch(sent)
    assert lane.drain().embedded == 3


def test_a_generation_whose_jobs_are_under_way_is_not_given_up_as_idle(lane: Lane) -> None:
    job = begun(lane, 3)
    feed(lane, job)
    submit(lane, job)
    lane.run("UPDATE generation SET runner_until = now() - interval '2 days', changed_at = now() - interval '2 days'")
    work, day = lane.engine.reindex_work(), timedelta(days=1)
    assert work.building.idle(day) == []
    assert not work.building.abort("t", job.generation.number, "idle", day)
    lane.provider.finish()
    lane.follow()
    assert work.building.idle(day) == []  # it has just ended: there is something to go on with
    lane.run("UPDATE batch_job SET ended_at = now() - interval '2 days'")
    assert work.building.idle(day) == [("t", job.generation.number)]
