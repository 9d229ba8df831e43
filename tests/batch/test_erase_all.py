"""Erasing all of a tenant: what is written meanwhile is erased too, what comes later is not touched."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.adapters.fsspec_blobs import open_s3
from core.adapters.key_providers import keys_from_text
from core.batch import erase
from core.batch.erase import plan
from core.model.erasure import Request
from core.model.memory import Draft
from core.model.names import archive_key
from core.record.erasing import ObjectsPlace
from tests.batch.lifecycle_parts import Lifecycle, lifecycle_of
from tests.seaweed import S3Server

TEXT = "what Ana told us about her diagnosis, at length, and what she made of it"
KEYS = keys_from_text(base64.b64encode(b"k" * 32).decode())
ALL = Request(tenant="t", kind="all")


def written(life: Lifecycle, *names: str) -> None:
    for name in names:
        life.writer.write("t", Draft(id=name, content=f"{TEXT} ({name})"))
        life.writer.write("t", Draft(id=f"sealed {name}", content=f"{TEXT} ({name})", sensitive=True))
    life.parts.drain()


def ended(life: Lifecycle, portion: erase.Portion) -> dict[str, Any]:
    report = erase.Report(tenant="t", next=portion)
    for _ in range(1000):
        if report.next is None:
            break
        report = erase.step(life.erase_work, report.next)
    assert report.receipt is not None, report.postponed
    return report.receipt


def whole(life: Lifecycle, *names: str) -> None:
    life.parts.drain()
    for name in names:
        assert life.get(name).content == f"{TEXT} ({name})"
        assert life.get(f"sealed {name}").content == f"{TEXT} ({name})"
    assert {row["id"] for row in life.sql("SELECT id FROM memory")} == {
        f"{kind}{name}" for name in names for kind in ("", "sealed ")
    }
    life.parts.assert_in_step()


def test_what_is_written_while_all_is_erased_is_erased_with_it(database_url: str, tmp_path: Path) -> None:
    life = lifecycle_of(database_url, tmp_path, keys=KEYS)
    written(life, "old")
    portion = plan(life.erase_work, ALL)
    written(life, "new")
    receipt = ended(life, portion)
    assert all(store["gone"] for store in receipt["stores"].values())
    assert life.parts.stamps() == {}
    assert life.sql("SELECT * FROM data_key") == []
    whole(life)
    life.close()


@pytest.mark.parametrize("when", ["index", "objects", "confirmed"])
def test_what_is_written_after_the_last_memory_was_erased_stays_whole(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    life = lifecycle_of(database_url, tmp_path, keys=KEYS)
    written(life, "old")
    life.age()
    life.archive()
    life.arrived()
    late = [lambda: (written(life, "new"), life.age(), life.archive())]

    class Late(ObjectsPlace):
        def remove(self, tenant: str, memories: Any, *, everything: bool) -> None:
            if everything and late:
                late.pop()()
            super().remove(tenant, memories, everything=everything)

    if when == "objects":
        places = [
            place if place.name != "objects" else Late(life.parts.database, life.blobs)
            for place in life.erase_work.places
        ]
        life.erase_work = replace(life.erase_work, places=tuple(places))
    elif when == "index":
        scroll = life.parts.index.scroll

        def after(*arguments: Any) -> Any:
            if late:
                late.pop()()
            return scroll(*arguments)

        monkeypatch.setattr(life.parts.index, "scroll", after)
    receipt = ended(life, plan(life.erase_work, ALL))
    assert receipt["outcome"] == "pending"  # the keys may be known for a while
    if late:
        late.pop()()
    whole(life, "new")
    life.sql("UPDATE erasure SET pending_until = now()")
    life.sql("UPDATE archive_object SET live_until = now()")
    assert ended(life, plan(life.erase_work, ALL))["outcome"] == "gone"
    whole(life, "new")
    life.close()


@pytest.mark.parametrize("client", ["s3fs", "obstore"])
@pytest.mark.parametrize("kind", ["subject", "all"])
def test_what_the_reaper_and_the_snapshots_removed_before_is_kept_in_no_version(
    s3_server: S3Server, s3_bucket: str, database_url: str, tmp_path: Path, client: str, kind: str
) -> None:
    other = s3_server.other_client()
    other.call_s3("put_bucket_versioning", Bucket=s3_bucket, VersioningConfiguration={"Status": "Enabled"})
    blobs = open_s3(s3_server.options(s3_bucket, client=client, prefix="deep"))
    life = lifecycle_of(database_url, tmp_path, blobs=blobs)

    def kept() -> set[str]:
        pages = other.call_s3("list_object_versions", Bucket=s3_bucket, Prefix="deep/t/")
        return {found["Key"] for found in pages.get("Versions", []) if "/deletions/" not in found["Key"]}

    for name, subject in (("a", "ana"), ("b", "bert")):
        life.writer.write("t", Draft(id=name, content=f"{TEXT} ({name})", subject=subject))
    life.parts.drain()
    life.age(ids=["a"])
    life.archive()
    life.restore("a")
    life.arrived(days=3)
    assert life.reap().objects == 1
    assert kept() == set()
    stray = archive_key("t", "a", 1, datetime(2026, 1, 1, tzinfo=UTC))
    blobs.put(stray, b"put by nobody we know of")
    blobs.delete(stray)
    blobs.put("t/snapshot/1/old.parquet", b"of a snapshot that was removed")
    blobs.delete("t/snapshot/1/old.parquet")
    receipt = life.erase(**({"subject": "ana"} if kind == "subject" else {})).receipt
    assert receipt is not None
    assert receipt["outcome"] == "gone"
    assert kept() == set() or kind == "subject"
    assert f"deep/{stray}" not in kept()
    assert "deep/t/snapshot/1/old.parquet" not in kept()
    life.close()
