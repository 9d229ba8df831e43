"""Swap, rollback and retirement: one generation serves at every moment, and none is lost that may be needed."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

from core.batch import reindex
from core.errors import Busy, Conflict, NotFound
from core.model.generation import GenerationState as State
from core.model.memory import Draft
from core.model.reindex import SwapOutcome
from core.record.building import statuses
from tests.batch.reindexing import GRACE, Rig, execute, found, gated, write


def test_a_collection_that_vanishes_just_before_the_swap_leaves_the_live_one_as_it_was(rig: Rig) -> None:
    job = gated(rig)
    assert rig.verify(job).passed
    rig.parts.index.drop(job.generation.collection)
    with pytest.raises(Conflict, match="given up"):
        rig.swap(job)
    assert rig.generations() == {1: State.LIVE, 2: State.ABORTED}
    assert rig.parts.index.alias(job.live.alias) == job.live.collection
    assert rig.work.swapper.swaps.open("t") is None


def test_rollback_five_minutes_after_the_swap_loses_nothing_written_since(rig: Rig) -> None:
    write(rig)
    rig.whole()
    rig.parts.writer.write("t", Draft(id="since", content="written since the swap"))
    rig.parts.writer.delete("t", "m004")
    rig.drain()
    assert rig.work.swapper.rollback("t", GRACE, uuid.uuid4(), {}, force=False) == 1
    assert rig.generations() == {1: State.LIVE, 2: State.RETIRING}
    rig.assert_in_step()
    assert found(rig, "written since the swap", 1) == ["since"]


def test_rollback_to_a_generation_that_is_behind_says_how_far_and_wants_force(rig: Rig) -> None:
    write(rig)
    rig.whole()
    rig.parts.writer.write("t", Draft(id="since", content="its provider is gone"))
    behind = reindex.behind_of(statuses(rig.parts.database, ["t"]))
    swapper = rig.work.swapper
    with pytest.raises(Conflict, match="1 entries behind"):
        swapper.rollback("t", GRACE, uuid.uuid4(), behind, force=False)
    assert swapper.rollback("t", GRACE, uuid.uuid4(), behind, force=True) == 1


def test_with_nothing_kept_there_is_nothing_to_roll_back_to(rig: Rig) -> None:
    write(rig, 3)
    with pytest.raises(NotFound):
        rig.work.swapper.rollback("t", GRACE, uuid.uuid4(), {}, force=False)


def test_the_live_one_and_the_one_being_built_are_never_dropped(rig: Rig) -> None:
    write(rig)
    rig.begun()
    for number in (1, 2):
        with pytest.raises(Conflict):
            rig.remover.drop("t", number)
    with pytest.raises(NotFound):
        rig.remover.drop("t", 3)
    assert len(rig.parts.index.collections()) == 2


def test_a_retired_one_is_dropped_after_its_grace_and_not_before(rig: Rig, database_url: str) -> None:
    write(rig)
    job = rig.whole()
    assert rig.remover.sweep() == {}
    assert rig.generations()[1] is State.RETIRING
    execute(database_url, "UPDATE generation SET retire_at = now() WHERE number = 1")
    assert rig.remover.sweep() == {}
    assert rig.generations() == {1: State.DROPPED, 2: State.LIVE}
    assert rig.parts.index.collections() == {job.generation.collection}
    rig.parts.writer.write("t", Draft(id="after", content="written after the drop"))
    rig.drain()
    rig.assert_in_step()
    with pytest.raises(NotFound):
        rig.work.swapper.rollback("t", GRACE, uuid.uuid4(), {}, force=False)


@pytest.mark.parametrize("alias", ["t.live", "strangers"])
def test_one_that_some_alias_names_is_not_dropped_and_stays_whole(rig: Rig, database_url: str, alias: str) -> None:
    write(rig)
    job = rig.whole()
    rig.parts.index.point_alias(alias, job.live.collection, job.generation.collection if alias == "t.live" else None)
    execute(database_url, "UPDATE generation SET retire_at = now() WHERE number = 1")
    assert list(rig.remover.sweep()) == [job.live.collection]
    rig.parts.writer.write("t", Draft(id="after", content="still written to both"))
    rig.drain()
    assert rig.generations()[1] is State.RETIRING
    rig.assert_in_step()


def test_one_a_worker_still_writes_to_is_not_dropped_yet(rig: Rig, database_url: str) -> None:
    write(rig)
    rig.whole()
    rig.parts.writer.write("t", Draft(id="busy", content="under way"))
    while (claim := rig.parts.outbox.claim(uuid.uuid4(), 10, ["t"])) is not None and claim.generation.number != 1:
        pass
    execute(database_url, "UPDATE generation SET retire_at = now() WHERE number = 1")
    assert "under way" in next(iter(rig.remover.sweep().values()))
    execute(database_url, "UPDATE outbox SET lease_until = now() - interval '1 second'")
    assert rig.remover.sweep() == {}
    assert rig.generations()[1] is State.DROPPED


def test_a_half_built_one_is_swept_when_nobody_goes_on_and_a_running_one_is_spared(rig: Rig, database_url: str) -> None:
    write(rig)
    job = rig.begun()
    assert reindex.give_up_idle(rig.work, timedelta(hours=1)) == []
    execute(database_url, "UPDATE generation SET runner_until = now() - interval '2 hours' WHERE state = 'building'")
    assert reindex.give_up_idle(rig.work, timedelta(hours=1)) == [("t", 2)]
    assert rig.remover.sweep() == {}
    assert rig.generations() == {1: State.LIVE, 2: State.DROPPED}
    assert job.generation.collection not in rig.parts.index.collections()
    assert rig.whole().generation.number == 3


def test_a_stalled_swapper_two_generations_late_is_refused_and_the_alias_stays(rig: Rig) -> None:
    write(rig)
    stalled = rig.whole("new")
    rig.whole("other")
    third = rig.whole("fake")
    with pytest.raises(Conflict):
        rig.parts.index.point_alias("t.live", stalled.generation.collection, stalled.live.collection)
    assert rig.parts.index.alias("t.live") == third.generation.collection


def test_an_intent_left_open_before_or_after_the_alias_moved_is_finished_by_the_next(
    rig: Rig, database_url: str
) -> None:
    for model, moved in (("new", False), ("other", True)):
        write(rig)
        job = rig.begun(model)
        rig.catch_up(job)
        rig.drain()
        assert rig.verify(job).passed
        rig.work.swapper.swaps.begin(rig.live(), job.generation, GRACE, uuid.uuid4())
        if moved:
            rig.parts.index.point_alias("t.live", job.generation.collection, rig.live().collection)
        with pytest.raises(Busy):
            rig.swap(job)
        execute(database_url, "UPDATE swap_intent SET lease_until = now() WHERE ended_at IS NULL")
        assert rig.swap(job) is SwapOutcome.ALREADY
        assert rig.live().number == job.generation.number
        assert rig.parts.index.alias("t.live") == job.generation.collection


def test_a_swap_with_the_alias_gone_makes_it_again(rig: Rig) -> None:
    job = gated(rig)
    assert rig.verify(job).passed
    for file in (rig.parts.index._root).glob("*.alias"):
        file.unlink()
    assert rig.swap(job) is SwapOutcome.SWAPPED
    assert rig.parts.index.alias("t.live") == job.generation.collection
