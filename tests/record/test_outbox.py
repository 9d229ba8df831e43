"""The outbox: who works on what, how a claim ends, and the barrier between writers and registrations."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from core.errors import Busy
from core.model.memory import Draft
from core.model.outbox import Claim, Lane
from core.model.space import EmbeddingSpace
from core.record import memories
from core.record.database import Database, Session
from core.record.outbox import Outbox, enqueue
from core.record.queries import query
from core.write.writer import Writer

Admin = psycopg.Connection[DictRow]
ONE, TWO = uuid.UUID(int=1), uuid.UUID(int=2)
WAIT = timedelta(hours=1)


def write(writer: Writer, tenant: str, *ids: str, content: str = "x") -> None:
    for memory_id in ids:
        writer.write(tenant, Draft(content=content, id=memory_id))


def claimed(outbox: Outbox, owner: uuid.UUID, limit: int = 100, tenants: Sequence[str] | None = None) -> Claim:
    claim = outbox.claim(owner, limit, tenants)
    assert claim is not None
    return claim


def ids_of(claim: Claim | None) -> set[str]:
    return set() if claim is None else {entry.memory_id for entry in claim.entries}


def entry(admin: Admin, memory_id: str) -> dict[str, Any] | None:
    statement = "SELECT *, ready_at > now() AS delayed FROM outbox WHERE memory_id = %s"
    return admin.execute(statement, [memory_id]).fetchone()


def expire(admin: Admin) -> None:
    admin.execute("UPDATE outbox SET lease_until = now() - interval '1 second' WHERE lease_until IS NOT NULL")


def test_two_workers_claim_disjoint_entries(writer: Writer, outbox: Outbox) -> None:
    write(writer, "a", "m1", "m2", "m3", "m4")
    first, second = claimed(outbox, ONE, 2), claimed(outbox, TWO, 2)
    assert len(first.entries) == len(second.entries) == 2
    assert ids_of(first) | ids_of(second) == {"m1", "m2", "m3", "m4"}
    assert outbox.claim(ONE, 2, None) is None


def test_workers_claiming_at_once_share_nothing(writer: Writer, outbox: Outbox) -> None:
    list(writer.write_many("a", [Draft(content="x", id=f"m{n}") for n in range(40)]))
    with ThreadPoolExecutor(8) as threads:
        claims = list(threads.map(lambda n: outbox.claim(uuid.UUID(int=n + 1), 5, None), range(8)))
    found = [one.memory_id for claim in claims if claim is not None for one in claim.entries]
    assert len(found) == len(set(found)) > 0


def test_a_new_enqueue_leaves_a_live_lease(writer: Writer, outbox: Outbox, admin: Admin) -> None:
    write(writer, "a", "m")
    claimed(outbox, ONE)
    before = entry(admin, "m")
    write(writer, "a", "m", content="newer")
    after = entry(admin, "m")
    assert before is not None
    assert after is not None
    assert after["seq"] == before["seq"] + 1
    for column in ("lease_owner", "lease_until", "claimed_seq"):
        assert after[column] == before[column] is not None
    assert outbox.claim(TWO, 10, None) is None


def test_finish_removes_what_is_unchanged_and_ours(
    writer: Writer, outbox: Outbox, database: Database, admin: Admin
) -> None:
    write(writer, "a", "m1", "m2")
    claim = claimed(outbox, ONE)
    write(writer, "a", "m2", content="newer")
    with database.tenant("a") as session:
        assert outbox.finish(session, Claim(TWO, claim.generation, claim.entries), ["m1", "m2"]) == set()
        assert outbox.renew(session, claim, ["m1", "m2"]) == {"m1", "m2"}
        assert outbox.finish(session, claim, ["m1", "m2"]) == {"m1"}
    assert entry(admin, "m1") is None
    assert entry(admin, "m2") is not None


def test_what_changed_meanwhile_is_claimable_at_once_after_a_release(
    writer: Writer, outbox: Outbox, database: Database
) -> None:
    write(writer, "a", "m")
    claim = claimed(outbox, ONE)
    write(writer, "a", "m", content="newer")
    outbox.release(claim, ["m"], WAIT, failed=True)
    again = claimed(outbox, TWO)
    assert [(one.memory_id, one.seq) for one in again.entries] == [("m", 2)]
    with database.tenant("a") as session:
        assert outbox.finish(session, again, ["m"]) == {"m"}


def test_an_expired_lease_is_anybodys_and_its_owner_ends_nothing(
    writer: Writer, outbox: Outbox, database: Database, admin: Admin
) -> None:
    write(writer, "a", "m")
    late = claimed(outbox, ONE)
    expire(admin)
    with database.tenant("a") as session:
        assert outbox.renew(session, late, ["m"]) == set()
        assert outbox.finish(session, late, ["m"]) == set()
    taken = claimed(outbox, TWO)
    assert [one.attempts for one in taken.entries] == [2]
    with database.tenant("a") as session:
        assert outbox.renew(session, late, ["m"]) == set()
        assert outbox.finish(session, late, ["m"]) == set()
    outbox.release(late, ["m"], WAIT, failed=True)
    outbox.set_aside(late, "m", "too late")
    with database.tenant("a") as session:
        assert outbox.finish(session, taken, ["m"]) == {"m"}


def test_a_failure_delays_and_counts_no_lost_attempt(writer: Writer, outbox: Outbox, admin: Admin) -> None:
    write(writer, "a", "m")
    outbox.release(claimed(outbox, ONE), ["m"], WAIT, failed=True)
    row = entry(admin, "m")
    assert row is not None
    assert (row["delayed"], row["failures"], row["attempts"], row["lease_owner"]) == (True, 1, 0, None)
    assert outbox.claim(ONE, 10, None) is None


def test_a_release_without_wait_is_claimable_at_once(writer: Writer, outbox: Outbox, admin: Admin) -> None:
    write(writer, "a", "m")
    outbox.release(claimed(outbox, ONE), ["m"], timedelta(0), failed=False)
    row = entry(admin, "m")
    assert row is not None
    assert (row["delayed"], row["failures"], row["attempts"]) == (False, 0, 0)
    assert ids_of(claimed(outbox, TWO)) == {"m"}


def test_a_new_write_ends_a_delay(writer: Writer, outbox: Outbox) -> None:
    write(writer, "a", "m")
    outbox.release(claimed(outbox, ONE), ["m"], WAIT, failed=True)
    write(writer, "a", "m", content="newer")
    assert ids_of(claimed(outbox, ONE)) == {"m"}


def test_what_is_set_aside_is_listed_and_a_new_write_brings_it_back(writer: Writer, outbox: Outbox) -> None:
    write(writer, "a", "m")
    outbox.set_aside(claimed(outbox, ONE), "m", "the provider refuses it")
    (aside,) = outbox.list_set_aside("a", 10)
    assert (aside.tenant, aside.generation, aside.memory_id, aside.reason) == ("a", 1, "m", "the provider refuses it")
    assert outbox.list_set_aside("b", 10) == []
    assert outbox.claim(ONE, 10, None) is None
    (backlog,) = outbox.backlog()
    assert (backlog.records, backlog.waiting, backlog.set_aside) == (1, 0, 1)
    write(writer, "a", "m", content="newer")
    assert outbox.list_set_aside("a", 10) == []
    assert ids_of(claimed(outbox, ONE)) == {"m"}


def test_what_changed_meanwhile_is_not_set_aside(writer: Writer, outbox: Outbox) -> None:
    write(writer, "a", "m")
    claim = claimed(outbox, ONE)
    write(writer, "a", "m", content="newer")
    outbox.set_aside(claim, "m", "the old text was refused")
    assert outbox.list_set_aside("a", 10) == []
    assert ids_of(claimed(outbox, TWO)) == {"m"}


def test_tenants_take_turns(writer: Writer, outbox: Outbox) -> None:
    list(writer.write_many("a", [Draft(content="x", id=f"m{n}") for n in range(50)]))
    write(writer, "b", "m1", "m2", "m3")
    write(writer, "c", "m1", "m2", "m3")
    served = [claimed(outbox, ONE, 1).generation.tenant for _ in range(9)]
    assert set(served[:3]) == {"a", "b", "c"}
    assert served == served[:3] * 3


def test_claims_keep_to_the_tenants_named_and_without_the_spaces_left_out(
    writer: Writer, outbox: Outbox, admin: Admin, space: EmbeddingSpace
) -> None:
    for tenant in ("a", "b"):
        write(writer, tenant, "m")
    assert claimed(outbox, ONE, tenants=["b"]).generation.tenant == "b"
    assert outbox.claim(ONE, 10, ["b"]) is None
    admin.execute("UPDATE generation SET fingerprint = 'elsewhere' WHERE tenant = 'a'")
    write(writer, "b", "n")
    assert outbox.claim(ONE, 10, None, without=["elsewhere", space.fingerprint]) is None
    claim = outbox.claim(ONE, 10, None, without=["elsewhere"])
    assert claim is not None
    assert claim.generation.tenant == "b"


def test_online_writes_go_before_backfill(writer: Writer, outbox: Outbox, database: Database, admin: Admin) -> None:
    write(writer, "a", "m1", "m2")
    write(writer, "b", "m")
    admin.execute("DELETE FROM outbox WHERE tenant = 'a'")
    with database.tenant("a") as session:
        enqueue(session, "a", ["m1"], Lane.BACKFILL)
    admin.execute("UPDATE generation SET served_at = now() WHERE tenant = 'b'")  # by turns alone, a came first
    assert claimed(outbox, ONE).generation.tenant == "b"
    write(writer, "a", "m2", content="newer")
    assert [ids_of(claimed(outbox, ONE, 1)) for _ in range(2)] == [{"m2"}, {"m1"}]


def test_an_online_write_lifts_backfill_work_and_backfill_lowers_none(
    writer: Writer, database: Database, admin: Admin
) -> None:
    write(writer, "a", "m")
    with database.tenant("a") as session:
        enqueue(session, "a", ["m"], Lane.BACKFILL)
    row = entry(admin, "m")
    assert row is not None
    assert (row["lane"], row["seq"]) == (Lane.ONLINE, 2)


def register(session: Session, space: EmbeddingSpace) -> None:
    """Generation 2 of tenant `a`, being built, as a registration does it."""
    session.execute(query("generation_barrier"), {"tenant": "a"})
    values = {"tenant": "a", "index_group": "g", "space": Jsonb(space.as_dict()), "fingerprint": space.fingerprint}
    session.execute(query("generation_register"), {**values, "state": "building"})


def generations_of(admin: Admin, memory_id: str) -> list[int]:
    statement = "SELECT generation FROM outbox WHERE memory_id = %s ORDER BY generation"
    return [row["generation"] for row in admin.execute(statement, [memory_id]).fetchall()]


def test_a_registration_waits_for_writers_and_then_sees_what_they_wrote(
    writer: Writer, database: Database, hasty: Database, admin: Admin, space: EmbeddingSpace
) -> None:
    def registered() -> None:
        with hasty.tenant("a") as session:
            register(session, space)

    write(writer, "a", "old")
    with database.tenant("a") as writing:
        memories.store(writing, "a", "m", Draft(content="started before"))
        with pytest.raises(Busy):
            registered()
    with hasty.tenant("a") as session:
        register(session, space)
        assert memories.standings(session, "a", ["m"]).keys() == {"m"}  # a backfill listing now finds it
    assert generations_of(admin, "m") == [1]
    write(writer, "a", "later")
    assert generations_of(admin, "later") == [1, 2]


def test_a_write_during_a_registration_waits_and_is_work_of_both_generations(
    writer: Writer, database: Database, admin: Admin, space: EmbeddingSpace
) -> None:
    write(writer, "a", "old")
    waiting = "SELECT count(*) AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    pause = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        with database.tenant("a") as session:
            register(session, space)
            write_ends = threads.submit(write, writer, "a", "m")
            while admin.execute(waiting).fetchall() == [{"n": 0}] and not write_ends.done():
                pause.wait(0.005)
            assert not write_ends.done()
        write_ends.result()
    assert generations_of(admin, "m") == [1, 2]


def test_writers_of_one_tenant_do_not_wait_for_each_other(
    writer: Writer, database: Database, hasty: Database, admin: Admin
) -> None:
    write(writer, "a", "old")
    with database.tenant("a") as one, hasty.tenant("a") as other:
        memories.store(one, "a", "m1", Draft(content="x"))
        memories.store(other, "a", "m2", Draft(content="x"))
    assert generations_of(admin, "m1") == generations_of(admin, "m2") == [1]
