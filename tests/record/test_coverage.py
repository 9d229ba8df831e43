"""Who is at work and who died, by the leases alone; and figures of tenants put together."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import psycopg
from hypothesis import given
from hypothesis import strategies as st
from psycopg.rows import DictRow

from core.model.coverage import TenantCoverage, together
from core.model.memory import Draft
from core.model.space import EmbeddingSpace
from core.record import drift
from core.record.building import Building
from core.record.database import Database
from core.record.outbox import Outbox
from core.write.writer import Writer

Admin = psycopg.Connection[DictRow]
ONE, TWO, RUNNER = (uuid.UUID(int=number) for number in (1, 2, 3))
START = datetime(2026, 1, 1, tzinfo=UTC)


def test_dead_runs_are_told_from_living_ones(
    database: Database, writer: Writer, outbox: Outbox, space: EmbeddingSpace, admin: Admin
) -> None:
    list(writer.write_many("a", [Draft(content="x", id=f"m{number}") for number in range(5)]))
    assert drift.runs(database) == []
    assert outbox.claim(ONE, 2, None)
    assert outbox.claim(TWO, 3, None)
    other = EmbeddingSpace(provider="test", model="five", dimensions=5)
    Building(database, timedelta(seconds=60)).register("a", other, RUNNER)
    admin.execute("UPDATE outbox SET lease_until = now() - interval '90 s' WHERE lease_owner = %s", [ONE])
    found = {one.holder: one for one in drift.runs(database, ["a"])}
    assert {one: (run.chore, run.entries, run.dead) for one, run in found.items()} == {
        ONE: ("embed", 2, True),
        TWO: ("embed", 3, False),
        RUNNER: ("reindex", None, False),
    }
    assert 90 <= -found[ONE].left < 150
    assert 0 < found[RUNNER].left <= 60
    assert found[RUNNER].begun is not None
    assert drift.runs(database, ["b"]) == []
    claim = outbox.claim(TWO, 10, None)  # what the dead one held is free
    assert claim is not None
    assert len(claim.entries) == 2
    assert ONE not in {one.holder for one in drift.runs(database)}


MOMENTS = st.none() | st.integers(0, 1000).map(lambda seconds: START + timedelta(seconds=seconds))
TENANTS = st.lists(
    st.builds(
        TenantCoverage,
        tenant=st.text(min_size=1),
        records=st.integers(0, 9),
        waiting=st.integers(0, 9),
        set_aside=st.integers(0, 9),
        waited=st.floats(0, 9),
        clean_at=st.dictionaries(st.sampled_from(["index", "cache"]), MOMENTS),
        found_at=st.dictionaries(st.sampled_from(["index", "cache"]), MOMENTS),
    )
)


@given(TENANTS)
def test_of_several_tenants_the_worst_moment_counts_and_the_numbers_are_added(tenants: list[TenantCoverage]) -> None:
    found = together("all", tenants)
    assert found.records == sum(one.records for one in tenants)
    assert (found.waiting, found.set_aside) == (sum(t.waiting for t in tenants), sum(t.set_aside for t in tenants))
    assert found.waited == max((one.waited for one in tenants), default=0.0)
    for store in ("index", "cache"):
        clean = [one.clean_at[store] for one in tenants if store in one.clean_at]
        known = [at for at in clean if at is not None]
        worst = min(known) if known and len(known) == len(clean) else None
        assert found.clean_at.get(store) == worst  # one tenant never compared: never
        seen = [at for one in tenants if (at := one.found_at.get(store)) is not None]
        assert found.found_at.get(store) == max(seen, default=None)
