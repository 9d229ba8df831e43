"""Recovery: whatever happened to the index or the record, in the end both agree, and nothing kept is embedded again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import psycopg
import pytest

from core.assembly import open_engine
from core.batch import recover
from core.batch.recover import plan
from core.errors import Unavailable
from core.model.memory import Draft, embedding_id
from core.model.point import Payload, Point, Stamp, payload_of
from core.model.snapshot import part_key
from core.record import memories
from core.record.kept import NIL, page
from core.settings import load_settings
from tests.batch.keeping import Keeping, keep


@pytest.fixture
def kept(database_url: str, tmp_path: Path) -> Iterator[Keeping]:
    keeping = keep(database_url, tmp_path)
    yield keeping
    keeping.close()


def assert_recovered(kept: Keeping, tenant: str = "t") -> None:
    """Ids and versions agree, the alias is right, and every vector is that of its memory's text."""
    kept.parts.assert_in_step(tenant)
    generation = kept.generation(tenant)
    assert kept.parts.index.alias(generation.alias) == generation.collection
    with kept.parts.database.tenant(tenant) as session:
        rows = session.execute("SELECT id, content FROM memory WHERE deleted_at IS NULL").fetchall()
    stored = kept.parts.index.vectors(generation.collection, [embedding_id(tenant, row["id"]) for row in rows])
    for row in rows:
        expected = kept.parts.embedder._vector(0, row["content"])
        np.testing.assert_allclose(stored[embedding_id(tenant, row["id"])], expected, atol=1e-6)


def alias_elsewhere(kept: Keeping) -> None:
    """The alias names a collection of somebody else's."""
    index, generation = kept.parts.index, kept.generation()
    index.create("stranger.g9", 32)
    index.point_alias(generation.alias, "stranger.g9", index.alias(generation.alias))


DAMAGES: dict[str, list[Callable[[Keeping], None]]] = {
    "collection gone": [Keeping.lose_collection],
    "alias gone": [Keeping.lose_alias],
    "both gone": [Keeping.lose_collection, Keeping.lose_alias],
    "wrong collection under the alias": [alias_elsewhere],
    "collection gone and the alias elsewhere": [Keeping.lose_collection, alias_elsewhere],
}


def test_a_plan_names_each_tenant_once() -> None:
    assert plan(["a", "b", "a"]) == ["a", "b"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_nothing_a_snapshot_holds_is_embedded_again_whatever_was_lost(kept: Keeping, damage: str) -> None:
    """Promise 8, for each kind of damage."""
    kept.write(90)
    kept.snapshot()
    asked = list(kept.parts.embedder.texts)
    for harm in DAMAGES[damage]:
        harm(kept)
    report = kept.recover()
    gone = ("collection" in damage and "wrong" not in damage) or "both" in damage
    assert (report.figures.wanted, report.figures.restored) == (90, 90 if gone else 0)
    assert report.figures.enqueued == 0
    assert (report.alias is None) == (damage == "collection gone")
    assert_recovered(kept)
    kept.drain()
    assert kept.parts.embedder.texts == asked


def test_only_what_the_snapshot_lacks_is_embedded(kept: Keeping) -> None:
    """New since, changed text since; another importance since has the same text and needs no embedding."""
    kept.write(40)
    kept.snapshot()
    kept.parts.writer.update("t", "m1", {"content": "said otherwise"}, 1)
    kept.parts.writer.update("t", "m2", {"importance": 0.9}, 1)
    kept.parts.writer.delete("t", "m3")
    kept.write(2, first=40)
    kept.lose_collection()
    kept.parts.embedder.texts.clear()
    report = kept.recover()
    assert (report.figures.restored, report.figures.enqueued) == (37, 4)
    assert kept.drain().reused == 1
    assert sorted(kept.parts.embedder.texts) == ["a note about 40", "a note about 41", "said otherwise"]
    assert_recovered(kept)


def test_the_drain_looks_into_snapshots_only_while_a_generation_is_recovered(kept: Keeping) -> None:
    kept.write(20)
    kept.snapshot()
    kept.parts.writer.update("t", "m1", {"importance": 0.9}, 1)
    kept.lose_collection()
    kept.recover()
    kept.drain()
    assert kept.sql("SELECT count(*) FROM recovery")[0][0] == 0
    before = list(kept.known._open.items())
    kept.clock[0] += 1000
    kept.write(5, first=20)
    assert list(kept.known._open.items()) == before


def test_without_a_snapshot_everything_is_embedded_anew(kept: Keeping) -> None:
    kept.write(30)
    kept.lose_collection()
    report = kept.recover()
    assert (report.snapshot, report.figures.enqueued) == (None, 30)
    kept.drain()
    assert_recovered(kept)


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(kept: Keeping) -> None:
    kept.write(30)
    kept.snapshot()
    kept.parts.writer.update("t", "m1", {"importance": 0.9}, 1)
    kept.parts.writer.update("t", "m2", {"content": "four words of text"}, 1)
    kept.lose_collection()
    kept.lose_alias()
    report = kept.recover(dry=True)
    found = report.figures
    assert (found.wanted, found.missing, found.restored, found.enqueued, found.reusable) == (30, 30, 28, 2, 1)
    assert found.tokens == 5
    assert report.alias == ""
    assert kept.parts.index.collections() == frozenset()
    assert kept.sql("SELECT count(*) FROM outbox WHERE lane = 1")[0][0] == 0
    assert kept.sql("SELECT count(*) FROM recovery")[0][0] == 0


def test_missing_stale_ahead_and_orphaned_points_are_told_apart_and_mended(kept: Keeping) -> None:
    kept.write(10)
    kept.snapshot()
    index, collection = kept.parts.index, kept.generation().collection
    before = {stamp.version for _, stamp in index.scroll(collection)}
    assert before == {1}
    kept.parts.writer.update("t", "m2", {"content": "newer words"}, 1)
    kept.parts.drain()
    kept.sql("UPDATE memory SET version = 3 WHERE id = 'm4'")  # its index entry is lost with the outbox below
    kept.sql("DELETE FROM outbox")
    index.delete(collection, {embedding_id("t", "m1"): 9})
    ghost = embedding_id("t", "ghost")
    fields = {"tenant": "t", "id": "ghost", "version": 7, "text_hash": "0" * 32}
    ahead = embedding_id("t", "m5")
    later = {**fields, "id": "m5"}
    vector = np.ones(32, dtype=np.float32)
    stamp = Stamp(7, "0" * 32)
    index.upsert(
        collection, [Point(Payload(ghost, stamp, fields), vector), Point(Payload(ahead, stamp, later), vector)]
    )
    found = kept.recover().figures
    assert (found.missing, found.stale, found.ahead, found.orphans, found.right) == (1, 1, 1, 1, 7)
    assert (found.restored, found.enqueued) == (2, 1)
    kept.drain()
    assert_recovered(kept)


def test_a_deleted_memory_does_not_come_back_out_of_a_snapshot(kept: Keeping) -> None:
    """Promise 3: deleted after the snapshot, before the recovery, and in the middle of it."""
    kept.write(20)
    kept.snapshot()
    kept.parts.writer.delete("t", "m1")
    kept.lose_collection()
    write = kept.parts.index.upsert

    def delete_first(collection: str, points: list[Point]) -> None:
        kept.parts.writer.delete("t", "m2")
        write(collection, points)

    kept.parts.index.upsert = delete_first  # type: ignore[method-assign, assignment]
    report = kept.recover()
    kept.parts.index.upsert = write  # type: ignore[method-assign]
    assert report.figures.restored == 19
    kept.drain()
    assert {embedding_id("t", "m1"), embedding_id("t", "m2")}.isdisjoint(kept.parts.stamps())
    assert_recovered(kept)


def test_a_write_in_the_middle_of_a_recovery_wins(kept: Keeping) -> None:
    kept.write(20)
    kept.snapshot()
    kept.lose_collection()
    write = kept.parts.index.upsert

    def update_first(collection: str, points: list[Point]) -> None:
        kept.parts.index.upsert = write  # type: ignore[method-assign]
        kept.parts.writer.update("t", "m2", {"content": "newest words"}, 1)
        kept.parts.drain()
        write(collection, points)

    kept.parts.index.upsert = update_first  # type: ignore[method-assign, assignment]
    kept.recover()
    kept.drain()
    assert_recovered(kept)


def test_a_record_that_came_to_the_same_version_again_does_not_get_the_old_vector(kept: Keeping) -> None:
    """Restored from an older backup, and written to before anybody raised the epoch: another text, the same version."""
    kept.write(3)
    kept.parts.writer.update("t", "m1", {"content": "what the backup did not know"}, 1)
    kept.parts.drain()
    kept.snapshot()
    kept.sql("DELETE FROM memory_version")
    kept.sql("UPDATE memory SET version = 1, content = 'as in the backup' WHERE id = 'm1'")
    kept.sql("DELETE FROM memory_version")
    kept.parts.writer.update("t", "m1", {"content": "written after the restore"}, 1)
    kept.lose_collection()
    kept.recover()
    kept.drain()
    assert_recovered(kept)


@pytest.mark.parametrize("harm", ["truncated", "changed", "removed"])
def test_a_damaged_part_is_not_used_said_so_and_embedded_instead(kept: Keeping, harm: str) -> None:
    kept.write(60)
    kept.snapshot()
    part = max(kept.manifest().parts, key=lambda one: one.rows)
    path = kept.root / "objects" / kept.shelf().folder / part_key(part.name)
    data = path.read_bytes()
    path.unlink()
    if harm != "removed":
        path.write_bytes(data[:-1] if harm == "truncated" else data[:200] + bytes([data[200] ^ 1]) + data[201:])
    kept.lose_collection()
    kept.parts.embedder.texts.clear()
    report = kept.recover()
    assert report.damaged == (part_key(part.name),)
    assert (report.figures.restored, report.figures.enqueued) == (60 - part.rows, part.rows)
    kept.drain()
    assert len(kept.parts.embedder.texts) == part.rows
    assert_recovered(kept)


def test_with_the_object_store_out_of_reach_nothing_is_paid_for_twice(kept: Keeping) -> None:
    kept.write(10)
    kept.snapshot()
    kept.lose_collection()

    class Gone:
        def list(self, prefix: str) -> object:
            raise Unavailable("the object store is away")

    with pytest.raises(Unavailable):
        kept.recover(blobs=Gone())
    assert kept.sql("SELECT count(*) FROM outbox")[0][0] == 0
    kept.recover()
    assert_recovered(kept)


def test_another_generation_in_the_same_space_lends_its_snapshot(kept: Keeping) -> None:
    """Restored record: its live generation has none of its own any more."""
    kept.write(20)
    kept.snapshot()
    kept.sql("UPDATE outbox SET generation = 2")
    kept.sql("UPDATE generation SET number = 2")
    kept.parts.embedder.texts.clear()
    report = kept.recover()
    assert (report.generation, report.figures.restored) == (2, 20)
    assert kept.parts.embedder.texts == []


def test_a_snapshot_of_another_space_or_another_hash_key_is_not_used(kept: Keeping) -> None:
    kept.write(5)
    kept.snapshot()
    kept.sql("UPDATE engine SET hash_key = '\\x00'")
    kept.lose_collection()
    assert kept.recover().snapshot is None


def test_two_tenants_with_hostile_names_are_recovered_apart(kept: Keeping) -> None:
    tenants = ["..", "acme/x", "acme"]
    for count, tenant in enumerate(tenants, start=5):
        kept.write(count, tenant, text=f"of {tenant}")
        kept.snapshot(tenant)
    kept.lose_collection("..")
    kept.lose_collection("acme/x")
    untouched = dict(kept.parts.index.scroll(kept.generation("acme").collection))
    assert kept.recover("..").figures.restored == 5
    assert kept.generation("acme/x").collection not in kept.parts.index.collections()
    assert kept.recover("acme/x").figures.restored == 6
    for tenant in tenants:
        assert_recovered(kept, tenant)
    assert dict(kept.parts.index.scroll(kept.generation("acme").collection)) == untouched


def test_of_two_at_once_one_works_and_the_other_says_so(kept: Keeping) -> None:
    kept.write(10)
    kept.snapshot()
    kept.lose_collection()
    second: list[recover.Report] = []

    def try_too() -> None:
        second.append(recover.step(kept.recovering, "t"))

    kept.recover(check=try_too)
    assert {one.skipped for one in second} == {"it is being recovered elsewhere"}
    assert_recovered(kept)


def test_a_swap_under_way_is_left_its_alias(kept: Keeping) -> None:
    kept.write(3)
    alias_elsewhere(kept)
    kept.recover(swapping=lambda tenant: tenant == "t")
    assert kept.parts.index.alias(kept.generation().alias) == "stranger.g9"


def test_the_engine_tells_recover_of_a_swap_under_way(database_url: str, tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path, postgres_url=database_url, cache=False)
    with open_engine(settings) as engine, psycopg.connect(database_url, autocommit=True) as admin:
        engine.write("t", Draft(content="a"))
        work = engine.safekeeping.recover_work()
        assert not work.swapping("t")
        admin.execute(
            "INSERT INTO swap_intent (tenant, from_generation, to_generation, grace, owner, lease_until)"
            " VALUES ('t', 1, 1, '1 day', gen_random_uuid(), now() + interval '1 minute')"
        )
        assert work.swapping("t")


def test_run_again_it_finds_nothing_to_do(kept: Keeping) -> None:
    kept.write(50)
    kept.snapshot()
    kept.lose_collection()
    kept.recover()
    found = kept.recover().figures
    assert (found.right, found.restored, found.enqueued, found.orphans) == (50, 0, 0, 0)


def test_a_payload_made_without_the_content_is_the_one_the_drain_makes(kept: Keeping) -> None:
    everything = Draft(
        id="full",
        content="words",
        title="title",
        subject="somebody",
        scope="s",
        project="p",
        agent="a",
        session="x",
        position=3,
        speaker="me",
        role="user",
        type="fact",
        tags=("one", "two"),
        labels={"k": "v"},
        metadata={"n": 1},
        importance=0.7,
        expires_at=kept.database_time() + timedelta(days=1),
    )
    kept.parts.writer.write("t", everything)
    with kept.parts.database.tenant("t") as session:
        (bare,) = page(session, "t", NIL, 10)
        whole, _ = memories.fetch_to_index(session, "t", ["full"])
    assert payload_of(bare, "h") == payload_of(whole["full"], "h")


def test_a_portion_is_bounded(kept: Keeping) -> None:
    kept.write(5)
    first = recover.step(replace(kept.recovering, portion=1), "t")
    assert first.cursor is not None
    assert first.figures.wanted == 5
