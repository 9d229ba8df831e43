"""The reindex chore: another embedding space, while reads, writes and deletes go on."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from core.batch import reindex
from core.errors import Busy, Conflict, LeaseLost, NotFound
from core.model.generation import GenerationState as State
from core.model.memory import Draft
from core.model.reindex import Progress, SwapOutcome
from core.record.backfill import Backfill
from tests.batch.reindexing import Rig, execute, found, write


def test_a_tenant_moves_to_another_model_and_both_generations_agree_with_the_record(rig: Rig) -> None:
    write(rig)
    job = rig.whole()
    assert rig.generations() == {1: State.RETIRING, 2: State.LIVE}
    assert rig.parts.index.alias(job.generation.alias) == job.generation.collection
    rig.assert_in_step()
    assert "m007" in found(rig, "entry 259 page 637 a note about subject 7", 3)


def test_what_is_fed_is_bounded_and_behind_online_writes() -> None:
    progress = Progress(ranges=3, open=2, fed=10, waiting=30, backfill=20, set_aside=0, behind=0)
    assert reindex.plan(progress, 100, None) == 80
    assert reindex.plan(progress, 100, 5) == 5
    assert reindex.plan(progress, 10, None) == 0
    assert reindex.plan(progress, 100, -3) == 0


def test_a_large_tenant_waits_in_the_outbox_a_piece_at_a_time(rig: Rig) -> None:
    write(rig, 100)
    job = rig.begun()
    report = reindex.step(rig.work, job)
    assert (report.fed, report.done, report.progress.ranges) == (30, False, 6)
    assert reindex.step(rig.work, job).fed == 0
    assert reindex.step(rig.work, job, 1000).fed == 0


def test_records_deleted_updated_and_added_before_in_and_after_the_scans_key(rig: Rig) -> None:
    """Counts stay equal, which proves nothing; ids and versions do."""
    write(rig, 60)
    job = rig.begun()
    reindex.step(rig.work, job)  # fed up to the middle
    for place in ("m001", "m029", "m058"):
        rig.parts.writer.delete("t", place)
    for place in ("m002", "m030", "m057"):
        rig.parts.writer.update("t", place, {"content": f"changed {place}"}, 1)
    for place in ("a-first", "m029x", "z-last"):
        rig.parts.writer.write("t", Draft(id=place, content=f"added {place}"))
    rig.catch_up(job)
    rig.drain()
    assert rig.verify(job).passed
    rig.swap(job)
    rig.assert_in_step()
    assert "m030" in found(rig, "changed m030", 3)
    assert "m029" not in found(rig, "subject 29", 60)


def test_constant_writes_do_not_keep_it_from_ending(rig: Rig) -> None:
    write(rig, 60)
    job = rig.begun()
    for turn in range(20):
        report = reindex.step(rig.work, job)
        if report.done:
            break
        # The same record again and again, and a new one, before and after each drain.
        rig.parts.writer.write("t", Draft(id="hot", content=f"turn {turn}"))
        rig.parts.drain(records=40)
        rig.parts.writer.write("t", Draft(id="hot", content=f"turn {turn} again"))
        rig.parts.writer.write("t", Draft(id=f"new {turn}", content=f"new {turn}"))
    assert report.done
    assert report.progress.waiting > 0


def test_a_record_that_changes_while_it_is_embedded_does_not_hold_the_watermark_up(rig: Rig, database_url: str) -> None:
    write(rig, 5)
    job = rig.begun()
    reindex.step(rig.work, job)
    embedder = rig.models[job.generation.space.fingerprint]
    embedder.before = lambda texts: rig.parts.writer.write("t", Draft(id="m001", content=f"turn {embedder.calls}"))
    rig.parts.drain(records=5)
    report = reindex.step(rig.work, job)
    assert (report.done, report.progress.waiting > 0) == (True, True)


def test_the_same_reindex_started_twice_works_once_and_the_other_is_told(rig: Rig, database_url: str) -> None:
    write(rig)
    job = rig.begun()
    with pytest.raises(Busy, match="under way elsewhere"):
        rig.begin()
    execute(database_url, "UPDATE generation SET runner_until = now() WHERE state = 'building'")
    taken = rig.begun()
    assert (taken.generation.number, taken.resumed) == (job.generation.number, True)
    with pytest.raises(LeaseLost):
        reindex.step(rig.work, job)


def test_another_model_is_refused_while_one_is_being_built_and_after_giving_it_up_is_not(rig: Rig) -> None:
    write(rig)
    job = rig.begun("new")
    with pytest.raises(Conflict, match="under way"):
        rig.begin("other")
    assert rig.work.building.abort("t", job.generation.number, "changed my mind")
    rig.whole("other")
    assert rig.generations() == {1: State.RETIRING, 2: State.ABORTED, 3: State.LIVE}
    rig.assert_in_step()


def test_a_tenant_that_is_there_already_has_nothing_to_do_and_one_that_never_wrote_is_told(rig: Rig) -> None:
    write(rig, 3)
    assert rig.begin("fake") is None
    with pytest.raises(NotFound):
        rig.begin("new", tenant="nobody")


def test_two_that_finish_together_swap_once_and_the_other_ends_as_superseded(rig: Rig) -> None:
    write(rig)
    job = rig.begun()
    rig.catch_up(job)
    assert rig.verify(job).passed
    twin = replace(job, runner=uuid.uuid4())
    assert [rig.swap(job), rig.swap(twin)] == [SwapOutcome.SWAPPED, SwapOutcome.ALREADY]
    with pytest.raises(Conflict):
        rig.remover.drop("t", 2)
    assert job.generation.collection in rig.parts.index.collections()


def test_a_vector_is_paid_for_once_in_a_space(rig: Rig) -> None:
    """Back to a model whose last generation is still kept: nothing is embedded."""
    write(rig, 40)
    rig.whole("new")
    calls = rig.parts.embedder.calls
    assert rig.models[rig.space("new").fingerprint].calls > 0
    again = rig.whole("fake")
    assert again.generation.number == 3
    assert rig.parts.embedder.calls == calls
    rig.assert_in_step()


def test_two_that_feed_side_by_side_feed_each_record_once(rig: Rig) -> None:
    write(rig, 200)
    rig.drain()
    job = rig.begun()
    feeding = Backfill(rig.parts.database, size=20, page=3)
    with rig.parts.database.tenant("t") as session:
        session.execute("DELETE FROM backfill_range WHERE tenant = 't'")
    feeding.split(job.generation)
    together = threading.Barrier(2)

    def feed() -> int:
        together.wait(10)
        fed = 0
        for _ in range(500):
            fed += (now := feeding.feed(job.generation, 3))
            if not now and not feeding.progress(job.generation).open:
                break
        return fed

    with ThreadPoolExecutor(2) as pool:
        shares = [one.result(60) for one in [pool.submit(feed) for _ in range(2)]]
    assert sum(shares) == 200
    assert min(shares) > 0
    with rig.parts.database.tenant("t") as session:
        rows = session.execute("SELECT count(*) AS n FROM outbox WHERE generation = %s", (job.generation.number,))
        assert [row["n"] for row in rows.fetchall()] == [200]
