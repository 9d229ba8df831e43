"""The archive as reconcile looks at it: objects gone, damaged, swapped, and of nobody."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from core.errors import Unavailable
from core.index.drift_archive import ArchivedObjects
from core.model.drift import Depth, DriftRules, Kind, Verdict
from core.model.names import archive_key, parse_archive_key
from tests.batch.lifecycle_parts import Lifecycle
from tests.batch.test_archive import TEXT, written
from tests.contract.fake_blobs import FakeBlobs


def drift_of(life: Lifecycle, depth: Depth = Depth.FULL) -> dict[Kind, tuple[str, ...]]:
    check = ArchivedObjects(life.parts.database, life.blobs, DriftRules(sample=1000), random.Random(1))
    report = check.look("t", depth, dry=False)
    assert (report.verdict is Verdict.CLEAN) == (not report.findings)
    return {one.kind: one.samples for one in report.findings}


def test_reconcile_tells_objects_gone_damaged_swapped_and_of_nobody(life: Lifecycle) -> None:
    written(life, "a", "b", "c", "d", "e")
    life.age()
    life.archive()
    assert drift_of(life) == {}
    by_id = {parsed[1]: key for key in life.objects() if (parsed := parse_archive_key(key))}
    data = {name: life.blobs.get(key) for name, key in by_id.items()}
    for name, other in (("a", data["b"]), ("b", data["a"]), ("c", data["c"][:-1])):
        life.blobs.delete(by_id[name])
        life.blobs.put(by_id[name], other)
    life.blobs.delete(by_id["d"])
    life.blobs.put(archive_key("t", "nobody", 1, datetime(2020, 1, 1, tzinfo=UTC)), b"of nobody")
    found = drift_of(life)
    assert set(found[Kind.OBJECT_DAMAGED]) == {"a", "b", "c"}
    assert found[Kind.OBJECT_GONE] == ("d",)
    assert len(found[Kind.OBJECT_OF_NOBODY]) == 1
    life.writer.delete_many("t", ["a", "b", "c", "d"])
    assert set(drift_of(life)) == {Kind.OBJECT_OF_NOBODY}
    assert life.get("e").content == f"{TEXT} (e)"


def test_a_stub_that_changes_while_it_is_compared_is_no_drift(life: Lifecycle, monkeypatch: pytest.MonkeyPatch) -> None:
    written(life, "a")
    life.age()
    life.archive()
    get_many = life.blobs.get_many

    def restored_meanwhile(keys: Sequence[str]) -> dict[str, bytes]:
        life.restore("a")
        life.blobs.delete(life.objects()[0])
        return get_many(keys)

    monkeypatch.setattr(life.blobs, "get_many", restored_meanwhile)
    check = ArchivedObjects(life.parts.database, life.blobs, DriftRules(sample=1000), random.Random(1))
    monkeypatch.setattr(life.contents, "fetch", lambda keys: get_many(list(keys)))
    assert check.look("t", Depth.FULL, dry=False).findings == ()


def test_an_object_store_out_of_reach_is_skipped_by_reconcile(life: Lifecycle) -> None:
    away = FakeBlobs()
    written(life, "a")
    life.age()
    life.archive()
    away.failures[""] = Unavailable("away")
    check = ArchivedObjects(life.parts.database, away, DriftRules(sample=1000), random.Random(1))
    with pytest.raises(Unavailable):
        check.look("t", Depth.FULL, dry=False)
