"""Promise 7 for the reindex: kill -9 between any two steps; the next run ends in the same state, by itself."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from core.model.generation import GenerationState as State
from core.model.memory import Draft
from core.model.reindex import SwapOutcome
from tests.batch.reindexing import execute, opened_rig, write
from tests.forks import ended

# Runs a reindex, and a sweep when it is through, that kills itself with -9 just before or after the named call.
VICTIM = """
import os, signal, sys
from pathlib import Path
from core.adapters.qdrant_edge import EdgeIndex
from core.index.gate import Gate
from core.record.backfill import Backfill
from core.record.building import Building
from core.record.outbox import Outbox
from core.record.removals import Removals
from core.record.swaps import Swaps
from tests.batch.reindexing import execute, opened_rig
url, root, when, owner, step = sys.argv[1:]
kind = {one.__name__: one for one in (EdgeIndex, Gate, Backfill, Building, Outbox, Removals, Swaps)}[owner]
original = getattr(kind, step)
def and_die(*arguments, **named):
    if when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    original(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(kind, step, and_die)
with opened_rig(url, Path(root)) as rig:
    rig.whole()
    execute(url, "UPDATE generation SET retire_at = now() WHERE state = 'retiring'")
    rig.remover.sweep()
"""
STEPS = [
    *("after Building.register", "after Backfill.split", "after EdgeIndex.create", "after Backfill.feed"),
    *("after Outbox.claim", "after EdgeIndex.upsert", "after Outbox.finish", "before Gate.judge", "after Gate.judge"),
    *("after Building.judge", "after Swaps.begin", "after EdgeIndex.point_alias", "after Swaps.complete"),
    *("after Removals.begin", "after EdgeIndex.drop", "after Removals.end"),
]


def leases_run_out(database_url: str) -> None:
    past = "now() - interval '1 second'"
    execute(database_url, f"UPDATE outbox SET lease_until = {past} WHERE lease_until IS NOT NULL")
    execute(database_url, f"UPDATE generation SET runner_until = {past} WHERE runner IS NOT NULL")
    execute(database_url, f"UPDATE swap_intent SET lease_until = {past} WHERE ended_at IS NULL")


@pytest.mark.parametrize("step", STEPS)
def test_a_reindex_killed_at_any_step_is_resumed_by_the_next(database_url: str, tmp_path: Path, step: str) -> None:
    root = tmp_path / "vectors"
    with opened_rig(database_url, root) as rig:
        write(rig, 25)
        rig.parts.writer.write("t", Draft(id="waiting", content="not in the first index yet"))
    when, _, call = step.partition(" ")
    assert ended(VICTIM, database_url, str(root), when, *call.split(".")) == -9
    leases_run_out(database_url)
    with opened_rig(database_url, root) as rig:
        rig.parts.writer.write("t", Draft(id="meanwhile", content="written before the next run"))
        rig.parts.writer.delete("t", "m003")
        job = rig.begin()
        if job is not None:
            rig.catch_up(job)
            assert rig.verify(job).passed
            assert rig.swap(job) in SwapOutcome
        execute(database_url, "UPDATE generation SET retire_at = now() WHERE state = 'retiring'")
        assert rig.remover.sweep() == {}
        assert rig.generations() == {1: State.DROPPED, 2: State.LIVE}
        assert rig.parts.index.collections() == {rig.live().collection}
        assert rig.parts.index.alias("t.live") == rig.live().collection
        rig.drain()
        rig.assert_in_step()
    with psycopg.connect(database_url) as session:
        assert session.execute("SELECT count(*) FROM swap_intent WHERE ended_at IS NULL").fetchone() == (0,)
