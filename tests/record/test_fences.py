"""Locks that cannot do harm: what runs out, runs double or is out of reach ends before its next side effect."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from core.adapters.redis_locks import RedisLocks
from core.adapters.redis_server import RedisServer
from core.errors import Busy, LeaseLost
from core.ports import Locks
from core.record.database import Database
from core.record.fences import Fenced, LockName, fenced
from tests.contract.fake_locks import FakeLocks

SWAP = LockName(tenant="acme", work="swap")
LONG = timedelta(minutes=1)
SHORT = timedelta(milliseconds=100)


@pytest.fixture(params=["fake", "redis"])
def locks(request: pytest.FixtureRequest) -> Iterator[Locks]:
    if request.param == "fake":
        yield FakeLocks()
        return
    server = RedisServer(request.getfixturevalue("valkey_url"), timeout=timedelta(seconds=1))
    yield RedisLocks(server, prefix="test:")
    server.close()


def test_a_second_run_of_the_same_work_is_told_so_and_another_tenants_goes_on(database: Database, locks: Locks) -> None:
    with fenced(database, locks, SWAP, "one", LONG) as first:
        with pytest.raises(Busy, match="under way"), fenced(database, locks, SWAP, "two", LONG):
            pass
        with fenced(database, locks, LockName(tenant="other", work="swap"), "two", LONG):
            pass
        with database.tenant("acme") as session:
            first.check(session)
    with fenced(database, locks, SWAP, "two", LONG) as second:
        assert second.number > first.number


def test_a_lock_shorter_than_its_job_stops_the_first_before_its_next_side_effect(
    database: Database, locks: Locks
) -> None:
    done: list[str] = []

    def side_effect(worker: Fenced, name: str) -> None:
        with database.tenant("acme") as session:
            worker.check(session)
            done.append(name)

    with fenced(database, locks, SWAP, "one", SHORT) as first:
        time.sleep(0.15)
        with fenced(database, locks, SWAP, "two", LONG) as second:
            with pytest.raises(LeaseLost):
                side_effect(first, "one")
            with pytest.raises(LeaseLost):
                first.renew()
            side_effect(second, "two")
    assert done == ["two"]


def test_renewed_in_time_it_outlasts_the_job(database: Database, locks: Locks) -> None:
    with fenced(database, locks, SWAP, "one", SHORT) as first:
        for _ in range(5):
            time.sleep(0.04)
            first.renew()
        assert first.certain
        with pytest.raises(Busy), fenced(database, locks, SWAP, "two", LONG):
            pass


def test_one_that_ran_out_while_nobody_wanted_it_is_renewed(database: Database, locks: Locks) -> None:
    with fenced(database, locks, SWAP, "one", SHORT) as first:
        time.sleep(0.15)
        first.renew()
        with database.tenant("acme") as session:
            first.check(session)


def test_the_next_owner_waits_for_the_critical_step_of_the_last(database: Database, locks: Locks) -> None:
    """Between the check and its commit nobody can take over: what passed the check is committed first."""
    order: list[str] = []
    checked = threading.Event()

    def second() -> None:
        checked.wait(5)
        with fenced(database, locks, SWAP, "two", LONG):
            order.append("two began")

    with ThreadPoolExecutor(1) as pool, fenced(database, locks, SWAP, "one", SHORT) as first:
        waiting = pool.submit(second)
        with database.tenant("acme") as session:
            first.check(session)
            time.sleep(0.15)
            checked.set()
            time.sleep(0.2)
            order.append("one committed")
        waiting.result(5)
    assert order == ["one committed", "two began"]


def test_with_the_lock_store_gone_work_goes_on_and_the_last_to_begin_counts(database: Database) -> None:
    locks = FakeLocks()
    locks.out_of_reach = True
    with (
        fenced(database, locks, SWAP, "one", LONG) as first,
        fenced(database, locks, SWAP, "two", LONG) as second,
    ):
        assert not first.certain
        assert not second.certain
        with pytest.raises(LeaseLost), database.tenant("acme") as session:
            first.check(session)
        with database.tenant("acme") as session:
            second.check(session)


def test_a_lock_store_that_forgot_everything_cannot_make_two_owners_count(database: Database, locks: Locks) -> None:
    """Redis lost its memory: the numbers come from PostgreSQL, and rise on."""
    with fenced(database, locks, SWAP, "one", LONG) as first:
        locks.free(SWAP.key, "one")  # as after a restart with nothing on disk
        with fenced(database, locks, SWAP, "two", LONG) as second:
            assert second.number == first.number + 1
            with pytest.raises(LeaseLost), database.tenant("acme") as session:
                first.check(session)


def test_one_tenant_cannot_check_anothers_lock(database: Database, locks: Locks) -> None:
    with (
        fenced(database, locks, SWAP, "one", LONG) as first,
        pytest.raises(LeaseLost),
        database.tenant("other") as session,
    ):
        first.check(session)
