"""kill -9 at each step of submitting and following; the next run ends the same, and pays for nothing twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from core.batch.batch_lane import Submitting, step
from core.model.memory import Draft
from tests.batch.batch_engine import Lane, as_argument
from tests.forks import ended

# Submits, or follows, and kills itself with -9 just before or after the named step.
VICTIM = """
import json, os, signal, sys
import core.batch.batch_lane as chore
import core.index.job_file
import core.record.batch_jobs as record
from core.adapters.openai_batches import OpenAIBatches
from core.assembly import open_engine
from core.index.indexer import Indexer
from core.settings import load_settings
action, when, name = sys.argv[2:]
chore.PIECE = 3
owners = (record.BatchJobs, OpenAIBatches, Indexer, core.index.job_file.JobFile, record)
owner = next(one for one in owners if hasattr(one, name))
original = getattr(owner, name)
def and_die(*arguments, **named):
    if when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = original(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(owner, name, and_die)
with open_engine(load_settings(**json.loads(sys.argv[1]))) as engine:
    if action == "submit":
        chore.step(engine.batch_work(), chore.Submitting(tenant="t", records=1000))
    else:
        for job in engine.batch_jobs(open_only=True):
            chore.follow(engine.batch_work(), job)
"""
SUBMIT = [
    *(("after", "claim"), ("after", "begin"), ("after", "put"), ("before", "submit")),
    *(("before", "_create"), ("after", "_create"), ("after", "note")),
]
FOLLOW = [
    *(("after", "take"), ("after", "poll"), ("before", "add_use"), ("after", "ingest")),
    *(("before", "end"), ("after", "end")),
]


def killed(lane: Lane, action: str, when: str, name: str) -> None:
    assert ended(VICTIM, as_argument(lane.chosen), action, when, name) == -9
    lane.leases_run_out()


def texts_of(lane: Lane) -> list[str]:
    return lane.provider.texts + lane.online()


def brought(lane: Lane, texts: int) -> None:
    """Follow, submit and drain until nothing is left: every text was paid for once, and is in the index."""
    for _ in range(3):
        lane.follow()
        lane.submit()
        lane.provider.finish()
    lane.follow()
    lane.drain()
    assert lane.waiting() == (0, 0, 0)
    lane.assert_in_step()
    assert sorted(texts_of(lane)) == sorted(set(texts_of(lane)))
    assert len(texts_of(lane)) == texts
    assert lane.online() == []
    (day,) = lane.engine.uses(1)
    assert day.use.texts == texts


@pytest.mark.parametrize(("when", "name"), SUBMIT)
def test_a_submitter_killed_after_any_step_sends_nothing_twice(lane: Lane, when: str, name: str) -> None:
    lane.remember(*[f"m{number}" for number in range(7)])
    lane.engine.write("t", Draft(id="again", content="a note about m3"))
    killed(lane, "submit", when, name)
    brought(lane, 7)


@pytest.mark.parametrize(("when", "name"), FOLLOW)
def test_a_follower_killed_after_any_step_keeps_everything_once(lane: Lane, when: str, name: str) -> None:
    lane.remember(*[f"m{number}" for number in range(7)])
    lane.submit()
    lane.provider.finish()
    killed(lane, "follow", when, name)
    brought(lane, 7)


def test_two_submitters_at_once_never_send_the_same_text_twice(lane: Lane) -> None:
    """Every text belongs to three memories, so that both meet it."""
    drafts = [Draft(id=f"m{part}-{number}", content=f"text {number}") for part in range(3) for number in range(40)]
    list(lane.engine.write_many("t", drafts))
    work, begin = replace(lane.engine.batch_work(), claimed=7), Barrier(3)

    def submit() -> int:
        begin.wait(10)
        reports = [step(work, Submitting(tenant="t", records=60)) for _ in range(3)]
        assert [one.postponed for one in reports] == [None] * 3
        return sum(one.entries for one in reports)

    with ThreadPoolExecutor(3) as pool:
        done = [pool.submit(submit) for _ in range(3)]
        assert sum(one.result() for one in done) == 120
    assert len({job.id for job in lane.jobs() if job.inputs}) > 1
    assert sorted(lane.provider.texts) == sorted({draft.content for draft in drafts})
    assert lane.waiting() == (120, 120, 0)
    brought(lane, 40)


def test_two_followers_at_once_keep_everything_once(lane: Lane) -> None:
    lane.remember(*[f"m{number}" for number in range(30)])
    lane.submit()
    lane.provider.finish()
    with ThreadPoolExecutor(2) as pool:
        found = [one.result() for one in [pool.submit(lane.follow) for _ in range(2)]]
    assert sum(one.kept for each in found for one in each) == 30
    brought(lane, 30)


def test_a_slow_submitter_whose_job_was_given_up_meanwhile_cancels_what_it_began(lane: Lane) -> None:
    """It sleeps before its request, longer than its lease; another run has freed its entries by then."""
    lane.remember("m1", "m2")
    batches = lane.engine._stores.models.batches_of(lane.engine._writer._space)
    assert batches is not None
    original = type(batches)._create
    asleep = [True]

    def late(self: object, name: str, file: str) -> str:
        if asleep.pop() if asleep else False:
            lane.provider.files.pop(file)  # the other run does not see it yet
            lane.leases_run_out()
            lane.follow()
            lane.provider.files[file] = b""
        return str(original(self, name, file))  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(batches), "_create", late)
        report = lane.submit()
    assert "taken" in (report.postponed or "")
    assert [batch["status"] for batch in lane.provider.batches.values()] == ["cancelling"]
    assert lane.waiting() == (2, 0, 0)
