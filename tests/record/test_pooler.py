"""Behind a pooler in transaction mode nothing depends on the session, and nothing is left on one."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from core.model.memory import Draft
from core.model.space import EmbeddingSpace
from core.record import memories
from core.record.database import Database, Limits
from core.record.fences import LockName, fenced
from core.record.migrate import migrate
from core.record.outbox import Outbox
from core.write.writer import Writer
from tests.contract.fake_locks import FakeLocks
from tests.pooler import Pooler, pooling

TENANTS = ("a", "b", "c", "d", "e", "f")


@pytest.fixture
def pooler(database_url: str) -> Iterator[Pooler]:
    with pooling(database_url) as pooler:
        yield pooler


@pytest.fixture
def pooled(pooler: Pooler) -> Iterator[Database]:
    opened = Database(f"postgresql://anybody@127.0.0.1:{pooler.port}/any", Limits(connections=6))
    opened.open()
    yield opened
    opened.close()


def test_writers_and_workers_of_six_tenants_at_once(pooler: Pooler, pooled: Database, space: EmbeddingSpace) -> None:
    numbers = itertools.count()
    writer = Writer(pooled, space, lambda: f"id-{next(numbers)}")
    outbox = Outbox(pooled, timedelta(seconds=60))

    def work(tenant: str) -> tuple[int, int]:
        for number in range(10):
            writer.write(tenant, Draft(content=f"single {number} of {tenant}"))
        list(writer.write_many(tenant, [Draft(content=f"{number} of {tenant}") for number in range(40)]))
        with fenced(pooled, FakeLocks(), LockName(tenant=tenant, work="swap"), "one", timedelta(minutes=1)) as lock:
            finished = 0
            while claim := outbox.claim(uuid.uuid4(), 20, [tenant]):
                with pooled.tenant(tenant) as session:
                    lock.check(session)
                    finished += len(outbox.finish(session, claim, [entry.memory_id for entry in claim.entries]))
        with pooled.tenant(tenant) as session:
            found = memories.page(session, tenant, memories.Place(), None, 100)
        assert all(memory.content.endswith(f"of {tenant}") for memory in found)
        return len(found), finished

    with ThreadPoolExecutor(len(TENANTS)) as pool:
        assert list(pool.map(work, TENANTS)) == [(50, 50)] * len(TENANTS)
    assert pooler.transactions > 100


def test_nothing_is_left_on_a_connection(pooler: Pooler, pooled: Database, space: EmbeddingSpace) -> None:
    before = [state_of(session) for session in pooler.sessions]
    writer = Writer(pooled, space, lambda: "id-1")
    for number in range(20):
        list(writer.write_many("t", [Draft(id="a", content=f"content {number}"), Draft(content="another")]))
        writer.delete("t", "a")
        with pooled.across() as session:
            session.execute("SELECT count(*) FROM outbox").fetchall()
    assert [state_of(session) for session in pooler.sessions] == before


def state_of(session: object) -> list[object]:
    """What a session carries from one transaction to the next."""
    asked = (
        "SELECT count(*) FROM pg_prepared_statements",
        "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'",
        "SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()",
        "SELECT count(*) FROM pg_listening_channels()",
        "SELECT current_user, current_setting('TimeZone'), coalesce(current_setting('memory.tenant', true), '')",
        "SELECT array_agg(name || setting ORDER BY name) FROM pg_settings WHERE source = 'session'",
    )
    return [session.execute(one).fetchall() for one in asked]  # type: ignore[attr-defined]


def test_migrations_run_through_it(empty_database_url: str) -> None:
    with pooling(empty_database_url) as pooler:
        url = f"postgresql://anybody@127.0.0.1:{pooler.port}/any"
        assert migrate(url)
        assert migrate(url) == []
