"""The erase chore: gone from every store, looked for again, receipted, and confirmed when it is run again."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from psycopg.types.json import Jsonb

from core.adapters.fsspec_blobs import open_s3
from core.adapters.key_providers import keys_from_text
from core.adapters.no_locks import NoLocks
from core.adapters.redis_cache import RedisCache
from core.adapters.redis_server import RedisServer
from core.batch.erase import plan
from core.batch.snapshot import SnapshotWork, step
from core.errors import NotFound, Refused, Unavailable
from core.model.erasure import Item, Request
from core.model.graph import Relation
from core.model.memory import Draft, embedding_id
from core.model.signing import is_genuine
from core.model.snapshot import SnapshotRules
from tests.batch.lifecycle_parts import Lifecycle, lifecycle_of
from tests.seaweed import S3Server

TEXT = "what Ana told us about her diagnosis, at length, and what she made of it"


def written(life: Lifecycle, tenant: str = "t") -> None:
    """Of Ana: warm, archived, deleted, and one that was hers in an older version; and one of somebody else."""
    for name in ("warm", "archived", "deleted", "was-hers"):
        related = [Relation(source="ana", target=f"diagnosis of {name}"), Relation(source="ana", target="tea")]
        draft = Draft(id=name, content=f"{TEXT} ({name})", subject="ana", session="s", relations=related)
        life.writer.write(tenant, draft)
    life.writer.write(tenant, Draft(id="was-hers", content="nothing of Ana", subject="bert"))
    life.writer.write(tenant, Draft(id="other", content="green tea", subject="bert", session="x"))
    life.parts.drain(tenant)
    life.age(ids=["archived"])
    life.archive(tenant)
    life.writer.delete(tenant, "deleted")


def receipt(life: Lifecycle, tenant: str = "t", **asked: str) -> dict[str, Any]:
    report = life.erase(tenant, **asked)
    assert report.receipt is not None
    return report.receipt


def everywhere(life: Lifecycle) -> str:
    """All that the record holds, as text."""
    tables = (
        *("memory", "memory_version", "event", "outbox", "tombstone", "erasure", "erasure_item", "archive_object"),
        *("keyword", "posting", "keyword_thread", "batch_item", "entity", "entity_name", "relation"),
    )
    return "\n".join(str(life.sql(f"SELECT to_jsonb(t) AS row FROM {table} t")) for table in tables)


def test_of_a_person_nothing_is_left_in_any_store(life: Lifecycle) -> None:
    written(life)
    first = receipt(life, subject="ana")
    assert (first["outcome"], first["memories"]) == ("pending", 4)  # a put of the archive may still arrive
    assert all(store["gone"] for store in first["stores"].values())
    assert set(first["stores"]) == {"record", "index", "snapshots", "objects", "cache", "graph"}
    life.arrived()
    life.sql("UPDATE erasure SET pending_until = now()")
    again = receipt(life, subject="ana")
    assert (again["outcome"], again["memories"], again["erasure"]) == ("gone", 4, first["erasure"])
    assert "diagnosis" not in everywhere(life)
    assert "ana" not in everywhere(life)
    assert {row["id"] for row in life.sql("SELECT id FROM memory")} == {"other"}
    assert set(life.parts.stamps()) == {embedding_id("t", "other")}
    assert life.objects() == []
    for name in ("warm", "archived", "deleted", "was-hers"):
        with pytest.raises(NotFound):
            life.get(name)
    life.parts.drain()
    life.parts.assert_in_step()


@pytest.mark.parametrize(("asked", "left"), [({"id": "archived"}, 4), ({"session": "s"}, 1), ({}, 0)])
def test_one_a_session_or_everything(life: Lifecycle, asked: dict[str, str], left: int) -> None:
    written(life)
    written(life, "acme/x")
    assert all(store["gone"] for store in receipt(life, **asked)["stores"].values())
    assert len(life.sql("SELECT tenant FROM memory WHERE tenant = 't'")) == left
    assert len(life.sql("SELECT tenant FROM memory WHERE tenant = 'acme/x'")) == 5
    assert life.get("archived", "acme/x").content == f"{TEXT} (archived)"
    assert len(life.parts.stamps("acme/x")) == 5


def test_snapshots_hold_no_row_of_the_erased_and_stay_whole_for_the_others(life: Lifecycle) -> None:
    written(life)
    work = SnapshotWork(
        database=life.parts.database,
        index=life.parts.index,
        blobs=life.blobs,
        locks=NoLocks(),
        rules=SnapshotRules(),
        new_id=uuid.uuid4,
        keep=timedelta(seconds=60),
    )
    step(work, "t")
    forgetter = life.forgetter
    assert forgetter.rows("t", ["warm", "was-hers", "other"]) == 3
    assert receipt(life, subject="ana")["stores"]["snapshots"] == {"looked_for": 4, "found": 0, "gone": True}
    assert (forgetter.rows("t", ["warm", "was-hers"]), forgetter.rows("t", ["other"])) == (0, 1)
    assert receipt(life)["stores"]["snapshots"]["gone"]
    assert forgetter.objects("t") == 0


@pytest.mark.parametrize("asked", [{"subject": "ana"}, {}])
def test_a_restored_backup_does_not_bring_the_erased_back(life: Lifecycle, asked: dict[str, str]) -> None:
    written(life)
    row = "to_jsonb(m) - '{thread,source_path,source_key}'::text[] AS row"
    rows = life.sql(f"SELECT {row} FROM memory m WHERE id = 'warm'")
    receipt(life, **asked)
    life.sql("DELETE FROM tombstone")
    columns = ", ".join(rows[0]["row"])
    life.sql(
        f"INSERT INTO memory ({columns}) SELECT {columns} FROM jsonb_populate_record(NULL::memory, %s)",
        Jsonb(rows[0]["row"]),
    )
    assert life.get("warm").content == f"{TEXT} (warm)"  # as in the backup
    replayed = life.erase_work.ledger.replay("t")
    assert (replayed.done_again, replayed.unreadable) == (1, ())
    with pytest.raises(NotFound):
        life.get("warm")


def test_a_deletion_the_ledger_has_not_got_is_told_to_it_before_its_event_is_erased(life: Lifecycle) -> None:
    life.writer.write("t", Draft(id="a", content=TEXT, subject="ana"))
    life.writer.delete("t", "a")
    life.parts.drain()
    life.reap()
    assert life.sql("SELECT id FROM memory") == []
    receipt(life, id="a")
    assert life.sql("SELECT kind FROM event WHERE memory_id = 'a'") == []
    assert life.erase_work.ledger.replay("t").known == 1


def test_what_is_written_under_an_erased_id_afterwards_is_another_matter(life: Lifecycle) -> None:
    written(life)
    receipt(life, subject="ana")
    version = life.writer.write("t", Draft(id="warm", content="of somebody else now", subject="bert")).version
    life.parts.drain()
    assert receipt(life, subject="ana")["stores"]["record"]["gone"]
    assert life.get("warm").content == "of somebody else now"
    assert version is not None
    assert version > 1
    life.parts.drain()
    life.parts.assert_in_step()


def test_a_worker_that_read_before_brings_nothing_back_and_makes_it_pending(life: Lifecycle) -> None:
    life.writer.write("t", Draft(id="a", content=TEXT, subject="ana"))
    receipts: list[dict[str, Any]] = []
    life.parts.embedder.before = lambda texts: receipts.append(receipt(life, subject="ana"))
    life.parts.work = replace(life.parts.work, workers=1)
    life.parts.drain()
    assert receipts[0]["outcome"] == "pending"
    assert receipts[0]["pending_until"] is not None
    assert life.parts.stamps() == {}
    life.sql("UPDATE erasure SET pending_until = now()")
    assert receipt(life, subject="ana")["outcome"] == "gone"


def test_a_point_that_came_back_all_the_same_is_found_by_the_next_look(life: Lifecycle) -> None:
    written(life)
    receipt(life, id="warm")
    before = life.parts.index.upsert
    life.writer.write("t", Draft(id="stand-in", content=TEXT))
    claims: list[Any] = []
    life.parts.index.upsert = lambda collection, points: claims.append(points)  # type: ignore[method-assign]
    life.parts.drain()
    life.parts.index.upsert = before  # type: ignore[method-assign]
    late = replace(claims[0][0], payload=replace(claims[0][0].payload, embedding_id=embedding_id("t", "warm")))
    before("t.g1", [late])  # at a version that the record had before
    assert embedding_id("t", "warm") in life.parts.stamps()
    assert receipt(life, id="warm")["stores"]["index"]["gone"]
    assert embedding_id("t", "warm") not in life.parts.stamps()


class Snapshots:
    """A further place, as another store would be joined."""

    name = "snapshots"
    at_once = False

    def __init__(self) -> None:
        self.held = {"warm", "archived", "other"}
        self.away = False

    def remove(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> None:
        if self.away:
            raise Unavailable("snapshots are out of reach")
        self.held -= set(memories)

    def look(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> int:
        return len(self.held & set(memories))


def test_a_store_out_of_reach_gives_no_receipt_and_the_next_run_goes_on(life: Lifecycle) -> None:
    written(life)
    snapshots = Snapshots()
    snapshots.away = True
    life.erase_work = replace(life.erase_work, places=(*life.erase_work.places, snapshots))
    report = life.erase(subject="ana")
    assert (report.receipt, report.postponed) == (None, "snapshots are out of reach")
    with pytest.raises(NotFound):
        life.get("warm")  # gone for every reader already
    snapshots.away = False
    assert receipt(life, subject="ana")["stores"]["snapshots"] == {"looked_for": 4, "found": 0, "gone": True}
    assert snapshots.held == {"other"}


def test_a_place_that_keeps_something_is_receipted_as_not_gone(life: Lifecycle) -> None:
    written(life)
    snapshots = Snapshots()
    snapshots.remove = lambda *_, **__: None  # type: ignore[method-assign]
    life.erase_work = replace(life.erase_work, places=(*life.erase_work.places, snapshots))
    found = receipt(life, subject="ana")
    assert (found["outcome"], found["stores"]["snapshots"]["found"]) == ("not gone", 2)
    assert life.sql("SELECT tenant FROM erasure WHERE confirmed_at IS NOT NULL") == []


def test_a_receipt_is_signed_by_the_operators_key_and_cannot_be_changed(life: Lifecycle) -> None:
    written(life)
    assert receipt(life, id="warm")["signature"] is None
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    life.erase_work = replace(life.erase_work, key=pem)
    found = receipt(life, subject="ana")
    public = base64.b64decode(found["signature"]["public_key"])
    assert is_genuine(found, public)
    assert not is_genuine({**found, "outcome": "gone!"}, public)
    assert not is_genuine(found, Ed25519PrivateKey.generate().public_key().public_bytes_raw())


def test_the_cache_forgets_and_takes_nothing_back(database_url: str, valkey_url: str, tmp_path: Path) -> None:
    server = RedisServer(valkey_url, timeout=timedelta(seconds=2))
    life = lifecycle_of(database_url, tmp_path, cache=RedisCache(server, prefix="x:"))
    written(life)
    life.get("archived")
    place = life.erase_work.places[2]
    items = {"archived": Item(embedding_id("t", "archived"), life.row("archived")["version"])}
    assert place.look("t", items, everything=False) == 1
    assert receipt(life, subject="ana")["stores"]["cache"]["gone"]
    assert place.look("t", items, everything=False) == 0
    life.close()
    server.close()


@pytest.mark.parametrize("client", ["s3fs", "obstore"])
def test_every_stored_version_of_an_object_goes(
    s3_server: S3Server, s3_bucket: str, database_url: str, tmp_path: Path, client: str
) -> None:
    other = s3_server.other_client()
    other.call_s3("put_bucket_versioning", Bucket=s3_bucket, VersioningConfiguration={"Status": "Enabled"})
    blobs = open_s3(s3_server.options(s3_bucket, client=client, prefix="deep"))
    life = lifecycle_of(database_url, tmp_path, blobs=blobs)
    written(life)
    (key,) = life.objects()
    blobs.delete(key)
    blobs.put(key, b"a second version")
    kept = other.call_s3("list_object_versions", Bucket=s3_bucket, Prefix=f"deep/{key}")
    assert len(kept["Versions"]) == 2
    assert receipt(life, subject="ana")["stores"]["objects"]["gone"]
    kept = other.call_s3("list_object_versions", Bucket=s3_bucket, Prefix=f"deep/{key}")
    assert not kept.get("Versions")
    assert not kept.get("DeleteMarkers")
    life.close()


def test_with_its_keys_destroyed_a_tenants_archives_cannot_be_read(database_url: str, tmp_path: Path) -> None:
    keys = keys_from_text(base64.b64encode(b"k" * 32).decode())
    life = lifecycle_of(database_url, tmp_path, keys=keys)
    written(life)
    (key,) = life.objects()
    copy = life.blobs.get(key)  # what a backup of the bucket keeps
    assert TEXT.encode() not in copy
    assert life.contents.opened("t", key, copy).content == f"{TEXT} (archived)"
    receipt(life)
    with pytest.raises(NotFound):
        life.contents.opened("t", key, copy)
    again = life.writer.write("t", Draft(id="warm", content="a new beginning", sensitive=True))
    assert again.version
    assert life.get("warm").content == "a new beginning"
    life.close()


def test_an_erasure_has_to_say_what(life: Lifecycle) -> None:
    for kind, value in (("subject", ""), ("session", ""), ("id", ""), ("all", "x")):
        with pytest.raises(Refused):
            Request(tenant="t", kind=kind, value=value)  # type: ignore[arg-type]
    assert plan(life.erase_work, Request(tenant="nobody", kind="all")).erasure != uuid.UUID(int=0)
    assert receipt(life, "nobody", subject="ana")["outcome"] == "gone"


def test_an_erasure_that_has_ended_takes_in_what_is_new_only_once_it_is_confirmed(life: Lifecycle) -> None:
    written(life)
    assert receipt(life, subject="ana")["outcome"] == "pending"
    life.writer.write("t", Draft(id="later", content="of Ana, and written later", subject="ana"))
    life.arrived()
    life.sql("UPDATE erasure SET pending_until = now()")
    assert receipt(life, subject="ana")["outcome"] == "gone"
    assert life.get("later").subject == "ana"
    assert receipt(life, subject="ana")["memories"] == 5
    assert {row["id"] for row in life.sql("SELECT id FROM memory")} == {"other"}
