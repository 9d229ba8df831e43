"""Snapshots: only what changed is written, what is not whole does not exist, and what is gone leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from core.batch import snapshot
from core.batch.snapshot import plan
from core.index.snapshots.parquet import decoded
from core.model.memory import embedding_id
from core.model.snapshot import part_key
from tests.batch.keeping import Keeping, keep

NEVER = timedelta(days=1000)


@pytest.fixture
def kept(database_url: str, tmp_path: Path) -> Iterator[Keeping]:
    keeping = keep(database_url, tmp_path)
    yield keeping
    keeping.close()


def rows_of(kept: Keeping, tenant: str = "t") -> dict[str, np.ndarray]:
    """The newest kept vector of each memory, by id."""
    found: dict[str, np.ndarray] = {}
    shelf = kept.shelf(tenant)
    for part in kept.manifest(tenant).parts:
        rows = shelf.rows(part)
        assert rows is not None
        found.update(zip(rows.ids, rows.vectors, strict=True))
    return found


def assert_whole(kept: Keeping, tenant: str = "t") -> None:
    """The snapshot holds the index's vector of every memory, and each part says of its rows what is so."""
    kept.parts.assert_in_step(tenant)
    collection = kept.generation(tenant).collection
    points = [point for point, _ in kept.parts.index.scroll(collection)]
    stored = kept.parts.index.vectors(collection, points)
    found = {embedding_id(tenant, name): vector for name, vector in rows_of(kept, tenant).items()}
    assert stored.keys() <= found.keys()
    for point, vector in stored.items():
        np.testing.assert_array_equal(found[point], vector)
    assert kept.manifest(tenant).rows == len(stored)


def test_a_plan_names_each_tenant_once() -> None:
    assert plan(["a", "b", "a"]) == ["a", "b"]


def test_the_first_snapshot_holds_every_vector_in_parts_of_bounded_size(kept: Keeping) -> None:
    kept.write(150)
    report = kept.snapshot()
    assert (report.rows, report.kept, report.done, report.damaged) == (150, 150, True, ())
    parts = kept.manifest().parts
    assert len(parts) >= 8
    assert max(part.rows for part in parts) <= 20
    assert_whole(kept)


def test_the_next_ones_hold_only_what_changed_since(kept: Keeping) -> None:
    kept.write(100)
    kept.snapshot()
    before = {part.name for part in kept.manifest().parts}
    assert (kept.snapshot().rows, kept.manifest().number) == (0, 1)
    kept.parts.writer.update("t", "m3", {"content": "said otherwise"}, 1)
    kept.parts.writer.update("t", "m4", {"importance": 0.9}, 1)
    kept.write(5, first=100)
    report = kept.snapshot()
    assert (report.rows, report.unchanged, report.kept) == (7, 98, 105)
    assert before <= {part.name for part in kept.manifest().parts}
    assert_whole(kept)


def test_a_snapshot_in_portions_goes_on_where_the_last_one_ended(kept: Keeping) -> None:
    kept.write(150)
    work = replace(kept.taking, rules=replace(kept.taking.rules, portion=40))
    first = snapshot.step(work, "t")
    assert (first.done, 40 <= first.rows < 80) == (False, True)
    rest = [snapshot.step(work, "t") for _ in range(3)]
    assert sum(one.rows for one in [first, *rest]) == 150
    assert rest[-1].done
    assert_whole(kept)


def test_parts_that_pile_up_are_compacted_and_vectors_of_deleted_memories_leave(kept: Keeping) -> None:
    kept.write(15)
    kept.snapshot()
    for n in range(4):
        kept.write(1, first=20 + n)
        kept.snapshot(compact_parts=3)
    assert len(kept.manifest().parts) <= 4
    kept.parts.writer.delete_many("t", ["m1", "m2"])
    kept.parts.drain()
    assert kept.snapshot(compact_after=NEVER).dropped == 2
    assert "m1" in rows_of(kept)
    report = kept.snapshot(compact_after=timedelta(0))
    assert report.rewritten == 1
    assert rows_of(kept).keys().isdisjoint({"m1", "m2"})
    assert_whole(kept)


def test_a_tenant_that_grows_is_cut_anew_and_loses_nothing(kept: Keeping) -> None:
    kept.write(15)
    kept.snapshot()
    kept.write(200, first=100)
    kept.snapshot()
    assert kept.manifest().bits > 0
    assert_whole(kept)
    assert all(part.bits == kept.manifest().bits for part in kept.manifest().parts)


def test_vectors_the_index_has_lost_are_not_lost_here_too(kept: Keeping) -> None:
    kept.write(60)
    kept.snapshot()
    before = rows_of(kept)
    points = [embedding_id("t", f"m{n}") for n in range(60)]
    kept.parts.index.delete(kept.generation().collection, dict.fromkeys(points[:50], 99))
    for _ in range(2):
        kept.snapshot(compact_after=timedelta(0), compact_parts=0)
    assert rows_of(kept).keys() == before.keys()
    kept.lose_collection()
    assert "lost" in (kept.snapshot().skipped or "")
    kept.parts.index.create(kept.generation().collection, 32)
    kept.snapshot(compact_parts=0)
    assert rows_of(kept).keys() == before.keys()


def test_a_vector_is_kept_only_with_the_hash_of_its_own_text(kept: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    """The point changes between the scroll and the reading of its vector: left to the next run."""
    kept.write(3)
    read = kept.parts.index.vectors

    def change_first(collection: str, ids: list[object]) -> object:
        monkeypatch.setattr(kept.parts.index, "vectors", read)
        kept.parts.writer.update("t", "m1", {"content": "said otherwise"}, 1)
        kept.parts.drain()
        return read(collection, ids)

    monkeypatch.setattr(kept.parts.index, "vectors", change_first)
    assert (kept.snapshot().moving, kept.ids_kept()) == (1, {"m0", "m2"})
    kept.snapshot()
    assert_whole(kept)


def test_a_point_whose_memory_is_deleted_is_not_kept(kept: Keeping) -> None:
    """Promise 3: the index still holds it, the record does not."""
    kept.write(3)
    kept.parts.writer.delete("t", "m1")
    kept.snapshot()
    assert kept.ids_kept() == {"m0", "m2"}


def test_half_precision_is_a_setting_and_its_loss_is_measured(kept: Keeping) -> None:
    kept.write(40, text="words words words of unequal unequal weight")
    whole = kept.snapshot()
    assert whole.loss == 0.0
    report = kept.snapshot(precision="float16", compact_parts=0)
    assert 0 < report.loss < 1e-5
    assert report.loss == max(part.loss for part in kept.manifest().parts)
    assert report.bytes < whole.bytes
    stored = kept.parts.index.vectors(kept.generation().collection, [embedding_id("t", f"m{n}") for n in range(40)])
    cosines = [
        float(np.dot(stored[embedding_id("t", name)], vector) / np.linalg.norm(vector))
        for name, vector in rows_of(kept).items()
    ]
    assert 1 - min(cosines) == pytest.approx(report.loss, abs=1e-6)


@pytest.mark.parametrize("harm", ["truncated", "changed", "removed"])
def test_a_part_that_is_not_as_it_was_written_is_not_used_and_said_so(kept: Keeping, harm: str) -> None:
    kept.write(60)
    kept.snapshot()
    part = max(kept.manifest().parts, key=lambda one: one.rows)
    path = kept.root / "objects" / kept.shelf().folder / part_key(part.name)
    data = path.read_bytes()
    path.unlink()
    if harm != "removed":
        middle = len(data) // 2
        changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes(data[:-1] if harm == "truncated" else changed)
    shelf = kept.shelf()
    manifest = shelf.newest()
    assert manifest is not None
    assert [one for one in manifest.parts if one.name == part.name and shelf.rows(one) is not None] == []
    assert shelf.damaged == [part_key(part.name)]
    if harm != "changed":  # seen by its size or absence: the next snapshot writes its rows anew
        report = kept.snapshot()
        assert (report.damaged, report.rows) == ((part_key(part.name),), part.rows)
        assert_whole(kept)


def test_a_manifest_that_cannot_be_read_is_none_and_the_one_before_it_serves(kept: Keeping) -> None:
    kept.write(30)
    kept.snapshot()
    kept.write(5, first=30)
    kept.snapshot()
    newest = max(path for path in kept.files() if "manifest" in path.name)
    newest.write_bytes(newest.read_bytes().replace(b"m", b"n", 1))
    assert kept.manifest().number == 1
    report = kept.snapshot()
    assert (report.damaged, report.rows, kept.manifest().number) == ((newest.name,), 5, 3)
    assert_whole(kept)


def test_parts_without_a_manifest_are_no_snapshot(kept: Keeping) -> None:
    kept.write(30)
    kept.snapshot()
    for path in kept.files():
        if "manifest" in path.name:
            path.unlink()
    assert kept.shelf().newest() is None


def test_old_snapshots_expire_and_superseded_parts_go_after_the_grace_time(kept: Keeping) -> None:
    kept.write(15)
    kept.snapshot()
    kept.parts.writer.delete_many("t", ["m1"])
    kept.parts.drain()
    report = kept.snapshot(compact_after=timedelta(0), keep=NEVER)
    assert (report.expired, report.swept) == (0, 0)
    report = kept.snapshot(compact_after=timedelta(0), keep=NEVER)  # what is stale since the last is compacted
    first = [path for path in kept.files() if path.name.endswith("1.json")]
    assert first
    assert "m1" in kept.ids_kept()
    kept.snapshot(keep=timedelta(0), grace=NEVER)
    assert "m1" in kept.ids_kept()
    report = kept.snapshot(keep=timedelta(0), grace=timedelta(0))
    assert report.expired >= 1
    assert "m1" not in kept.ids_kept()
    assert_whole(kept)
    named = {part.name for part in kept.manifest().parts}
    assert {path.name.partition(".")[0] for path in kept.files() if path.suffix == ".parquet"} == named


def test_what_a_dead_run_left_is_swept_after_the_grace_time_and_not_before(kept: Keeping) -> None:
    kept.write(15)
    kept.snapshot()
    whole = kept.files()
    stray = whole[0].with_name("0" * 32 + ".parquet")
    stray.write_bytes(b"of a run that died")
    assert kept.snapshot().swept == 0
    assert kept.snapshot(grace=timedelta(0)).swept == 1
    assert kept.files() == whole


def test_two_tenants_with_hostile_names_keep_to_their_own_folders(kept: Keeping) -> None:
    tenants = ["..", "acme/x", "acme", "A|b", "a|B"]
    for count, tenant in enumerate(tenants, start=3):
        kept.write(count, tenant, text=f"of {tenant}")
        kept.snapshot(tenant)
    for count, tenant in enumerate(tenants, start=3):
        assert kept.ids_kept(tenant) == {f"m{n}" for n in range(count)}
        assert_whole(kept, tenant)
    everything = [path for path in (kept.root / "objects").rglob("*") if path.is_file()]
    assert len(everything) == sum(len(kept.files(tenant)) for tenant in tenants)


def test_a_generation_that_is_not_live_has_no_new_snapshots_and_its_old_ones_expire(kept: Keeping) -> None:
    kept.write(5)
    kept.snapshot()
    space = kept.parts.embedder.space
    kept.sql("UPDATE generation SET state = 'retiring'")
    kept.sql(
        "INSERT INTO generation (tenant, number, index_group, space, fingerprint, state) SELECT tenant, 2, index_group,"
        " jsonb_set(space, '{model}', '\"other\"'), 'f', 'live' FROM generation"
    )
    assert space.model != kept.generation().space.model
    kept.parts.index.create(kept.generation().collection, 32)
    kept.snapshot()
    assert kept.ids_kept() == {f"m{n}" for n in range(5)}
    kept.snapshot(keep=timedelta(0), grace=timedelta(0))
    kept.snapshot(keep=timedelta(0), grace=timedelta(0))
    assert kept.ids_kept() == set()


def test_erased_memories_leave_every_object_at_once(kept: Keeping) -> None:
    kept.write(60)
    kept.snapshot()
    kept.write(5, first=60)
    kept.snapshot()
    kept.snapshot(compact_parts=0)
    held = kept.files()[0]
    orphan = next(path for path in kept.files() if path.suffix == ".parquet" and ".keys" not in path.name)
    held.with_name("f" * 32 + ".parquet").write_bytes(orphan.read_bytes())
    gone = {"m7", "m61", *decoded(orphan.read_bytes()).ids[:2]}
    found = kept.forgetter().forget("t", sorted(gone))
    assert found.rows >= len(gone)
    assert kept.ids_kept().isdisjoint(gone)
    assert kept.ids_kept() == {f"m{n}" for n in range(65)} - gone
    assert set(rows_of(kept)) == kept.ids_kept()
    assert kept.forgetter().forget("t", sorted(gone)).rows == 0


def test_what_is_erased_while_a_snapshot_is_under_way_is_not_finished_into_it(kept: Keeping) -> None:
    """The run lost its lock: it put a part before the erasure and would name it after."""
    kept.write(5)

    def erase_meanwhile() -> None:
        kept.taking.locks.free("snapshot:t", "")
        kept.taking.locks.held.clear()  # type: ignore[attr-defined]
        if kept.ids_kept() and not erased:
            erased.append(kept.forgetter().forget("t", ["m1"]))

    erased: list[object] = []
    report = snapshot.step(replace(kept.taking, check=erase_meanwhile), "t")
    assert erased
    assert report.skipped
    assert "m1" not in kept.ids_kept()
