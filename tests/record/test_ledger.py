"""The ledger of deletions: what was deleted stays deleted, also in a record restored from a backup."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from core.adapters.fsspec_blobs import open_folder
from core.model.memory import Draft
from core.model.version import EPOCH_UNIT
from core.record.database import Database
from core.record.ledger import Ledger
from core.write.writer import Writer


@pytest.fixture
def ledger(database: Database, tmp_path: Path) -> Iterator[Ledger]:
    blobs = open_folder(tmp_path / "objects")
    yield Ledger(database, blobs)
    blobs.close()


def alive(url: str, tenant: str = "t") -> set[str]:
    with psycopg.connect(url) as session:
        rows = session.execute("SELECT id FROM memory WHERE tenant = %s AND deleted_at IS NULL", [tenant]).fetchall()
    return {row[0] for row in rows}


def restore(url: str) -> None:
    """As the backup had it: everything alive at version 1, nothing shipped, no event; the writer's own trigger off."""
    with psycopg.connect(url) as session:
        session.execute("ALTER TABLE memory DISABLE TRIGGER USER")
        session.execute(
            "UPDATE memory SET deleted_at = NULL, version = 1, updated_at = created_at, content = 'as in the backup'"
        )
        session.execute("ALTER TABLE memory ENABLE TRIGGER USER")
        session.execute("DELETE FROM memory_version")
        session.execute("DELETE FROM event")
        session.execute("DELETE FROM deletion_ledger")


def test_what_was_deleted_after_the_backup_is_deleted_again(
    writer: Writer, ledger: Ledger, database_url: str, database: Database
) -> None:
    """Promise 3 over a restore; of two tenants, and of a hostile name."""
    for tenant in ("t", "../t"):
        list(writer.write_many(tenant, [Draft(id=f"m{n}", content=f"words {n}") for n in range(6)]))
        writer.delete_many(tenant, ["m1", "m2"])
    assert ledger.ship() == 4
    assert ledger.ship() == 0
    restore(database_url)
    assert alive(database_url) == {f"m{n}" for n in range(6)}
    epoch = ledger.raise_epoch()
    for tenant in ("t", "../t"):
        replayed = ledger.replay(tenant)
        assert (replayed.known, replayed.done_again, replayed.unreadable) == (2, 2, ())
        assert alive(database_url, tenant) == {"m0", "m3", "m4", "m5"}
        assert ledger.replay(tenant).done_again == 0
    with psycopg.connect(database_url) as session:
        rows = session.execute("SELECT version FROM memory WHERE deleted_at IS NOT NULL").fetchall()
        waiting = session.execute("SELECT count(*) FROM outbox WHERE memory_id IN ('m1', 'm2')").fetchone()
    assert {row[0] for row in rows} == {epoch * EPOCH_UNIT + 1}
    assert waiting == (4,)


def test_a_memory_written_again_after_its_deletion_lives(writer: Writer, ledger: Ledger, database_url: str) -> None:
    writer.write("t", Draft(id="a", content="first"))
    writer.delete("t", "a")
    writer.write("t", Draft(id="a", content="again"))
    ledger.ship()
    ledger.raise_epoch()
    assert ledger.replay("t").done_again == 0
    assert alive(database_url) == {"a"}


def test_so_does_one_whose_count_began_anew_because_its_tombstone_was_purged(
    writer: Writer, ledger: Ledger, database_url: str
) -> None:
    writer.write("t", Draft(id="a", content="first"))
    writer.delete("t", "a")
    with psycopg.connect(database_url) as session:
        session.execute("UPDATE event SET at = at - interval '1 hour'")
        session.execute("DELETE FROM memory")
    ledger.ship()
    writer.write("t", Draft(id="a", content="again"))
    assert ledger.replay("t").done_again == 0
    assert alive(database_url) == {"a"}


def test_a_transaction_in_flight_is_never_passed(writer: Writer, ledger: Ledger, database_url: str) -> None:
    """A later deletion commits first; the earlier one is shipped once it has."""
    list(writer.write_many("t", [Draft(id=name, content=name) for name in ("slow", "fast")]))
    writer.delete("t", "fast")
    assert ledger.ship() == 1
    list(writer.write_many("t", [Draft(id="fast", content="again")]))
    with psycopg.connect(database_url) as slow:
        slow.execute("UPDATE memory SET deleted_at = now(), version = version + 1 WHERE tenant = 't' AND id = 'slow'")
        writer.delete("t", "fast")
        assert ledger.ship() == 0
    assert ledger.ship() == 2
    assert ledger.ship() == 0


def test_two_at_once_ship_each_deletion_and_lose_none(writer: Writer, ledger: Ledger, database_url: str) -> None:
    list(writer.write_many("t", [Draft(id=f"m{n}", content="words") for n in range(30)]))
    writer.delete_many("t", [f"m{n}" for n in range(30)])
    threads = [threading.Thread(target=ledger.ship) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    restore(database_url)
    ledger.replay("t")
    assert alive(database_url) == set()


def test_a_piece_that_is_not_as_it_was_written_is_told(writer: Writer, ledger: Ledger, tmp_path: Path) -> None:
    writer.write("t", Draft(id="a", content="words"))
    writer.delete("t", "a")
    ledger.ship()
    (path,) = (tmp_path / "objects" / "t" / "deletions").iterdir()
    path.write_bytes(path.read_bytes()[:-2])
    assert len(ledger.replay("t").unreadable) == 1


def test_each_epoch_is_higher_than_any_the_object_store_has_seen(ledger: Ledger, database_url: str) -> None:
    assert [ledger.raise_epoch(), ledger.raise_epoch()] == [1, 2]
    with psycopg.connect(database_url) as session:
        session.execute("UPDATE engine SET epoch = 0")  # the same backup, once more
    assert ledger.raise_epoch() == 3


def test_events_restored_from_another_server_are_shipped_all_the_same(
    writer: Writer, ledger: Ledger, database_url: str
) -> None:
    writer.write("t", Draft(id="a", content="words"))
    writer.delete("t", "a")
    with psycopg.connect(database_url) as session:
        session.execute("UPDATE event SET xid = '999999999999'")
    assert ledger.ship() == 0
    ledger.raise_epoch()
    assert ledger.ship() == 1
