"""Promises 2, 3 and 10 under injected faults: names, collections, stores out of reach, an older record, the cache."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.adapters.no_cache import NoCache
from core.batch import reconcile
from core.errors import Unavailable
from core.index.drift_cache import CachedValues
from core.index.removal import Remover
from core.model.drift import Depth, Kind, Verdict
from core.model.memory import Draft, embedding_id
from core.model.query import Filters
from core.ports import Versioned
from core.record.kept import mark_recovery
from tests.batch.drifting import MINUTE, WHOLE, Drifting, by_kind, found_of, opened
from tests.contract.fake_cache import FakeCache


@pytest.fixture
def drift(database_url: str, tmp_path: Path) -> Iterator[Drifting]:
    with opened(database_url, tmp_path) as rig:
        yield rig


def report_of(drift: Drifting, store: str, depth: Depth = Depth.DIGESTS, **rules: Any) -> Any:
    return next(one for one in drift.look(depth, **rules) if one.store == store)


def alias_file(drift: Drifting) -> Path:
    return drift.root / "vectors" / f"{drift.generation().alias}.alias"


def wipe(drift: Drifting) -> None:
    """The collection's folder vanishes."""
    drift.index._shards.let_go(drift.generation().collection)
    shutil.rmtree(drift.root / "vectors" / drift.generation().collection)


def test_faults_of_every_kind_at_once_are_mended(drift: Drifting) -> None:
    drift.write(300)
    for n in range(20, 30):
        drift.parts.writer.update("t", f"m{n:04}", {"importance": 0.9}, 1)
    drift.parts.writer.delete("t", "m0299")
    drift.rig.drain()
    drift.lose("m0000", "m0100", "m0200")
    drift.add_orphans(4)
    drift.turn_to("m0020", 1)
    drift.turn_to("m0021", 9)
    drift.turn_to("m0150", 1, tags=["stranger"])
    drift.index.create("t.g9", 32)
    drift.index.point_alias(drift.generation().alias, "t.g9", drift.generation().collection)
    found = {one.store: by_kind(one) for one in drift.look(Depth.FULL)}
    assert found["index"] == {
        Kind.MISSING: (3, 0), Kind.ORPHAN: (4, 0), Kind.STALE: (1, 0), Kind.AHEAD: (1, 0), Kind.PAYLOAD: (1, 0),
    }  # fmt: skip
    assert found["alias"] == {Kind.ALIAS: (1, 0)}
    assert found["collections"] == {Kind.STRANGER: (1, 1)}
    drift.remove()
    drift.rig.drain()
    drift.assert_in_step()
    assert drift.index.alias(drift.generation().alias) == drift.generation().collection
    for one in drift.look(Depth.FULL):
        assert one.store == "collections" or one.verdict is Verdict.CLEAN, one
    assert drift.rig.reader.search("t", "a note about 299", 5, Filters()).found[0].memory.id != "m0299"


def test_one_percent_of_the_points_lost_is_found_by_the_count_and_mended(drift: Drifting) -> None:
    drift.write(1000)
    drift.lose(*(f"m{n:04}" for n in random.Random(1).sample(range(1000), 10)))
    assert by_kind(drift.mend(Depth.COUNTS)) == {Kind.MISSING: (10, 0)}
    drift.assert_in_step()


@pytest.mark.parametrize("elsewhere", [None, "t.g9"])
def test_an_alias_that_is_gone_or_points_elsewhere_names_the_live_collection_again(
    drift: Drifting, elsewhere: str | None
) -> None:
    drift.write(10)
    live = drift.generation()
    if elsewhere:
        drift.index.create(elsewhere, 32)
        drift.index.point_alias(live.alias, elsewhere, live.collection)
    else:
        alias_file(drift).unlink()
    dry = report_of(drift, "alias", dry=True)
    assert (by_kind(dry), drift.index.alias(live.alias)) == ({Kind.ALIAS: (1, 1)}, elsewhere)
    assert by_kind(report_of(drift, "alias", Depth.COUNTS)) == {Kind.ALIAS: (1, 0)}
    assert drift.index.alias(live.alias) == live.collection
    assert report_of(drift, "alias").verdict is Verdict.CLEAN


def test_a_swap_under_way_is_right_by_itself_and_one_whose_owner_died_is_finished(drift: Drifting) -> None:
    drift.write(40)
    job = drift.rig.begun()
    drift.rig.catch_up(job)
    assert drift.rig.verify(job).passed
    swaps = drift.work.names.swapper.swaps
    swaps.begin(job.live, job.generation, MINUTE, job.runner)
    drift.index.point_alias(job.live.alias, job.generation.collection, job.live.collection)
    assert report_of(drift, "alias").verdict is Verdict.UNSETTLED
    assert drift.index.alias(job.live.alias) == job.generation.collection
    drift.sql("UPDATE swap_intent SET lease_until = now() - interval '1 second'")
    assert report_of(drift, "alias").verdict is Verdict.CLEAN
    assert drift.generation().number == job.generation.number


def test_a_collection_nobody_registered_is_shown_and_one_of_a_dropped_generation_is_dropped_again(
    drift: Drifting,
) -> None:
    drift.write(10)
    drift.rig.whole()
    remover: Remover = drift.rig.remover
    remover.drop("t", 1)
    drift.index.create("t.g1", 32)
    drift.index.create("t.g77", 32)
    drift.index.create("another.g1", 32)
    report = report_of(drift, "collections")
    assert by_kind(report) == {Kind.STRANGER: (2, 1)}
    assert {"t.g77", "another.g1"} <= drift.index.collections()
    assert "t.g1" not in drift.index.collections()


@pytest.mark.parametrize("depth", list(Depth))
@pytest.mark.parametrize("left", [None, 0, 40])
def test_a_collection_that_is_gone_or_mostly_gone_is_for_recover_and_nothing_is_embedded_by_us(
    drift: Drifting, depth: Depth, left: int | None
) -> None:
    drift.write(100)
    if left is None:
        wipe(drift)
    else:
        drift.lose(*(f"m{n:04}" for n in range(left, 100)))
    (one,) = drift.looks(depth)
    report = next(each for each in one.stores if each.store == "index")
    assert (one.recover, report.verdict) == (True, Verdict.DRIFT)
    assert found_of(report, Kind.GONE).found == 100 - (left or 0)
    assert drift.waiting() == 0


def test_an_index_that_is_being_recovered_is_judged_by_nobody_else(drift: Drifting) -> None:
    drift.write(50)
    drift.lose(*(f"m{n:04}" for n in range(20)))
    mark_recovery(drift.parts.database, drift.generation(), MINUTE)
    report = drift.index_report()
    assert (report.verdict, report.note, report.whole) == (Verdict.SKIPPED, "it is being recovered", False)
    mark_recovery(drift.parts.database, drift.generation(), timedelta(0))
    assert by_kind(drift.mend()) == {Kind.MISSING: (20, 0)}
    drift.assert_in_step()


class Faulty:
    """An index that is out of reach: for one method, from its n-th call on; for a scroll, after so many points."""

    def __init__(self, index: Any, method: str, after: int = 0) -> None:
        self._index, self._method, self.after = index, method, after

    def __getattr__(self, name: str) -> Any:
        return self._fails if name == self._method else getattr(self._index, name)

    def _fails(self, *arguments: Any, **named: Any) -> Any:
        found = getattr(self._index, self._method)(*arguments, **named) if self.after else None
        return self._broken_off(found)

    def _broken_off(self, found: Any) -> Any:
        if self.after == 0:
            raise Unavailable("the index cannot be reached")
        return self._some(found) if self._method == "scroll" else found

    def _some(self, found: Any) -> Iterator[Any]:
        for number, one in enumerate(found):
            if number == self.after:
                raise Unavailable("the index went away")
            yield one


@pytest.mark.parametrize(
    ("method", "after"), [("count", 0), ("scroll", 0), ("scroll", 30), ("stamps", 0), ("payloads", 0), ("alias", 0)]
)
@pytest.mark.parametrize("depth", [Depth.DIGESTS, Depth.FULL])
def test_a_store_out_of_reach_is_skipped_which_is_not_clean_and_a_broken_scan_repairs_nothing(
    drift: Drifting, method: str, after: int, depth: Depth
) -> None:
    drift.write(100)
    drift.lose("m0001")
    drift.add_orphans(1)
    faulty = Faulty(drift.index, method, after)
    drift.work = replace(drift.work, index=faulty, names=replace(drift.work.names, index=faulty))
    store = "alias" if method == "alias" else "index"
    report = report_of(drift, store, depth)
    assert (report.verdict, report.findings, report.whole) == (Verdict.SKIPPED, (), False)
    assert report.note.startswith("unreachable")
    if store == "index":
        assert drift.waiting() == 0
        assert drift.remove().waiting == 0


class ShortScroll(Faulty):
    """An index whose scroll ends early and says nothing of it."""

    def _some(self, found: Any) -> Iterator[Any]:
        yield from (one for number, one in enumerate(found) if number < self.after)


def test_a_scan_that_ends_early_without_a_word_is_caught_by_the_second_look(drift: Drifting) -> None:
    drift.write(100)
    drift.work = replace(drift.work, index=ShortScroll(drift.index, "scroll", 30))
    report = drift.index_report(Depth.FULL)
    assert report.findings == ()
    assert drift.waiting() == 0


def test_a_record_restored_from_an_older_backup_loses_no_point_before_a_person_looked(drift: Drifting) -> None:
    drift.write(100)
    drift.sql("CREATE TABLE backup AS SELECT * FROM memory")
    list(drift.parts.writer.write_many("t", [Draft(id=f"m{n:04}", content=f"said anew {n}") for n in range(60)]))
    drift.write(40, first=100)
    drift.sql("ALTER TABLE memory DISABLE TRIGGER memory_updated")
    drift.sql("DELETE FROM memory WHERE id >= 'm0100'")
    drift.sql("UPDATE memory m SET version = b.version, content = b.content FROM backup b WHERE b.id = m.id")
    drift.sql("ALTER TABLE memory ENABLE TRIGGER memory_updated")
    for depth in Depth:
        report = drift.mend(depth)
        assert by_kind(report) == {Kind.AHEAD: (60, 60), Kind.ORPHAN: (40, 40)}
        assert "memory recover --restored" in report.alarm
    assert len(drift.points()) == 140


def test_two_looks_at_once_leave_each_other_alone_or_do_no_harm(drift: Drifting) -> None:
    drift.write(80)
    drift.lose("m0001", "m0002")
    drift.add_orphans(2)
    held = drift.work.locks
    assert held.take("reconcile:t", "somebody else", MINUTE)
    (report,) = drift.looks()
    assert report.skipped == "it is being looked at elsewhere"
    assert reconcile.total([report])[0].verdict is Verdict.SKIPPED
    held.free("reconcile:t", "somebody else")
    first, second = (reconcile.step(drift.work, WHOLE, Depth.DIGESTS) for _ in range(2))
    assert [one.recover for one in (first, second)] == [False, False]
    drift.remove()
    drift.remove()
    drift.rig.drain()
    drift.assert_in_step()


def test_a_cached_value_of_another_version_is_dropped_and_a_cache_out_of_reach_is_skipped(drift: Drifting) -> None:
    drift.write(30)
    cache = FakeCache()
    values = CachedValues(drift.parts.database, cache, drift.work.rules, random.Random(1), lambda point: f"k:{point}")
    drift.work = replace(drift.work, checks={"cache": values})
    right, ahead = (f"k:{embedding_id('t', one).hex}" for one in ("m0001", "m0002"))
    cache.put_newer(right, Versioned(1, b"right"), MINUTE)
    cache.put_newer(ahead, Versioned(8, b"of a version nobody knows"), MINUTE)
    report = report_of(drift, "cache", Depth.FULL)
    assert by_kind(report) == {Kind.CACHED: (1, 0)}
    assert (cache.get_versioned(right), cache.get_versioned(ahead)) == (Versioned(1, b"right"), None)
    assert report_of(drift, "cache", Depth.FULL).verdict is Verdict.CLEAN
    drift.work = replace(drift.work, checks={"cache": replace(values, cache=NoCache())})
    assert report_of(drift, "cache").verdict is Verdict.SKIPPED
