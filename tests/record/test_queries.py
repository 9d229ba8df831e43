"""The named queries: each is planned under its role, and the hot ones use an index."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow

from core.model.memory import Draft, embedding_id
from core.record.database import Database, Session
from core.record.queries import query, query_names
from core.write.writer import Writer

Admin = psycopg.Connection[DictRow]
ROLES = {"-- as: app": "memory_app", "-- as: worker": "memory_worker", "-- as: owner": "none"}
EXECUTED = {"memory_incoming", "memory_incoming_copy"}  # CREATE TABLE and COPY cannot be explained
NEEDS_INCOMING = {"memory_incoming_copy", "memory_store_incoming"}
ROWS = 2000


def numbered(text: str) -> str:
    """The query with $1, $2, … in place of its named parameters."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text)))
    return re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", text)


@pytest.mark.parametrize("name", query_names())
def test_every_query_is_planned_under_the_role_it_names(admin: Admin, name: str) -> None:
    text = query(name)
    with admin.transaction(force_rollback=True):
        admin.execute("SELECT set_config('role', %s, true)", [ROLES[text.partition("\n")[0]]])
        if name in NEEDS_INCOMING:
            admin.execute(query("memory_incoming"))
        if name not in EXECUTED:
            assert admin.execute(f"EXPLAIN (GENERIC_PLAN) {numbered(text)}".encode()).fetchall()
        elif name == "memory_incoming":
            admin.execute(text)
        else:
            with admin.cursor() as cursor, cursor.copy(text):
                pass  # nothing is copied, in binary


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def scans(session: Session, name: str, values: dict[str, Any]) -> dict[str, set[str]]:
    """Types of the plan's nodes, with the relations or indexes they read."""
    row = session.execute(b"EXPLAIN (FORMAT JSON) " + query(name).encode(), values).fetchone()
    assert row is not None
    found: dict[str, set[str]] = {}
    for node in nodes(row["QUERY PLAN"][0]["Plan"]):
        found.setdefault(node["Node Type"], set()).add(node.get("Index Name") or node.get("Relation Name") or "")
    return found


def indexed(found: dict[str, set[str]]) -> bool:
    return any("Index" in kind for kind in found) and "Seq Scan" not in found


@pytest.fixture
def full(writer: Writer, admin: Admin) -> None:
    """Two thousand memories of tenant `a`, a minute apart, and their work; some of another tenant."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    drafts = [
        Draft(
            content=f"number {n}",
            id=f"m{n:04}",
            scope=f"scope {n % 20}",
            session=f"session {n % 50}",
            created_at=start + timedelta(minutes=n),
        )
        for n in range(ROWS)
    ]
    list(writer.write_many("a", drafts))
    list(writer.write_many("b", drafts[:50]))
    for table in ("memory", "outbox", "generation"):
        admin.execute(f"ANALYZE {table}".encode())


LOOK_UPS = {
    "memory_by_ids": ("ids", "pkey"),
    "memory_to_index": ("ids", "pkey"),
    "memory_versions": ("ids", "pkey"),
    "memory_by_points": ("points", "embedding_id_idx"),
}


@pytest.mark.parametrize("name", LOOK_UPS)
@pytest.mark.parametrize("analyzed", [True, False])
def test_look_ups_use_their_own_index_with_fresh_statistics_and_with_none(
    writer: Writer, database: Database, admin: Admin, name: str, analyzed: bool
) -> None:
    list(writer.write_many("a", [Draft(content=f"number {n}", id=f"m{n:04}") for n in range(ROWS)]))
    if analyzed:
        admin.execute(b"ANALYZE memory")
    parameter, index = LOOK_UPS[name]
    ids = [f"m{n:04}" for n in range(0, 320, 10)]
    asked: list[Any] = ids if parameter == "ids" else [embedding_id("a", one) for one in ids]
    with database.tenant("a") as session:
        found = scans(session, name, {"tenant": "a", parameter: asked})
    used = set().union(*(names for kind, names in found.items() if "Index" in kind))
    assert used
    assert all(one.endswith(index) for one in used)
    assert "Seq Scan" not in found


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("place", [{}, {"scope": "scope 3"}, {"session": "session 3"}])
@pytest.mark.parametrize("before", [None, datetime(2026, 1, 2, tzinfo=UTC)])
def test_a_page_is_read_through_an_index(database: Database, place: dict[str, str], before: datetime | None) -> None:
    nowhere = {"scope": None, "project": None, "session": None, "role": None}
    values = {"tenant": "a", **nowhere, **place, "before": before, "before_id": before and "m1000", "limit": 20}
    with database.tenant("a") as session:
        assert indexed(scans(session, "memory_page", values))


@pytest.mark.usefixtures("full")
def test_work_is_claimed_through_an_index(database: Database) -> None:
    lease = timedelta(seconds=60)
    values = {"tenant": "a", "generation": 1, "owner": uuid.uuid4(), "limit": 64, "lease": lease}
    with database.across() as session:
        assert indexed(scans(session, "outbox_claim", values))


@pytest.mark.usefixtures("full")
def test_a_range_is_fed_and_a_generation_walked_through_an_index(database: Database) -> None:
    named = {"tenant": "a", "generation": 1, "limit": 100}
    with database.tenant("a") as session:
        session.execute(query("backfill_split"), {**named, "size": 500})
        fed = scans(session, "backfill_feed", {**named, "lane": 1, "wait": None})
        walked = scans(session, "memory_stamps", {**named, "after": uuid.UUID(int=0)})
    assert all(any("Index" in kind for kind in found) for found in (fed, walked))
    assert not any("memory" in name for found in (fed, walked) for name in found.get("Seq Scan", ()))


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("name", ["batch_claim", "batch_claim_fed", "estimate_waiting_page", "estimate_records_page"])
def test_work_for_batch_jobs_is_found_through_an_index(database: Database, name: str) -> None:
    lease = timedelta(seconds=60)
    values = {"tenant": "a", "generation": 1, "owner": uuid.uuid4(), "limit": 64, "lease": lease, "after": "m0100"}
    with database.across() if name.startswith("batch_claim") else database.tenant("a") as session:
        assert indexed(scans(session, name, values))


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("batch_vectors", "batch_item"),
        ("batch_known", "batch_item"),
        ("batch_items_keep", "batch_item"),
        ("batch_ready", "outbox"),
        ("batch_set_aside", "outbox"),
    ],
)
def test_items_of_batch_jobs_and_their_entries_are_looked_up_through_an_index(
    database: Database, admin: Admin, name: str, index: str
) -> None:
    job = uuid.UUID(int=0)
    with database.tenant("a") as session:
        session.execute(
            """INSERT INTO batch_job (tenant, id, generation, fingerprint, provider, model, deadline)
               VALUES ('a', %s, 1, 'f', 'p', 'm', now())""",
            [job],
        )
        session.execute(
            """INSERT INTO batch_item
                   (tenant, id, job, fingerprint, text_hash, tokens, memory_ids, versions, state, vector)
               SELECT 'a', gen_random_uuid(), %s, 'f', 'hash ' || n, 1, '{}', '{}', 'kept', 'x'
               FROM generate_series(1, 5000) n""",
            [job],
        )
        session.execute(
            "UPDATE outbox o SET batch_item = gen_random_uuid(), batch_seq = seq, ready_at = now() + interval '1 hour'"
        )
    for table in ("batch_item", "outbox"):
        admin.execute(f"ANALYZE {table}".encode())
    items = [uuid.UUID(int=n) for n in range(100)]
    values: dict[str, Any] = {
        "tenant": "a", "fingerprint": "f", "hashes": [f"hash {n}" for n in range(100)], "items": items, "job": job,
        "vectors": [b"x"] * 100, "reasons": ["why"] * 100, "again": True, "unsent": 0,
    }  # fmt: skip
    with database.tenant("a") as session:
        found = scans(session, name, values)
    assert any("Index" in kind and any(index in one for one in names) for kind, names in found.items())
    assert "Seq Scan" not in found


@pytest.mark.usefixtures("full")
def test_leases_are_renewed_through_an_index(database: Database) -> None:
    ids = [f"m{n:04}" for n in range(64)]
    lease = timedelta(seconds=60)
    values = {"tenant": "a", "generation": 1, "owner": uuid.uuid4(), "ids": ids, "lease": lease}
    with database.tenant("a") as session:
        assert indexed(scans(session, "outbox_renew", values))


LOCKING = [
    *("outbox_finish", "outbox_renew", "outbox_release", "outbox_retry", "outbox_drop"),
    *("batch_hold", "batch_ready", "batch_set_aside"),
]


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("name", LOCKING)
@pytest.mark.parametrize("count", [3, 1500])
def test_entries_are_locked_in_the_order_of_ids(database: Database, name: str, count: int) -> None:
    """Else two statements over the same entries wait for each other in a circle: whatever plan is chosen."""
    text = query(name)
    values: dict[str, Any] = {
        "tenant": "a",
        "generation": 1,
        "owner": uuid.uuid4(),
        "lease": timedelta(seconds=60),
        "wait": timedelta(seconds=1),
        "failed": 0,
        "done": False,
        "ids": [f"m{n:04}" for n in reversed(range(count))],
        "items": [uuid.UUID(int=n) for n in reversed(range(count))],
        "reasons": ["why"] * count,
        "deadline": datetime(2026, 6, 1, tzinfo=UTC),
        "again": True,
        "unsent": 0,
    }
    with database.tenant("a") as session:
        row = session.execute(b"EXPLAIN (FORMAT JSON) " + text.encode(), values).fetchone()
    assert row is not None
    locking = [node for node in nodes(row["QUERY PLAN"][0]["Plan"]) if node["Node Type"] == "LockRows"]
    assert len(locking) == 1
    below = locking[0]["Plans"][0]
    while below["Node Type"] == "Result":  # the policy, asked once
        below = below["Plans"][0]
    ordered = below["Node Type"] == "Sort" or below.get("Index Name", "").endswith("pkey")
    assert ordered, below
