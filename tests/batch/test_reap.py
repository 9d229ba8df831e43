"""The reap chore: what is at its end goes, from every store before its row, and nothing else does."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.batch.reap import Phase, Portion, plan
from core.errors import NotFound, Refused, Unavailable
from core.model.memory import Draft, embedding_id
from core.model.names import archive_key
from core.model.policy import Action, Facts, Policies, Policy, Rule, decide
from core.record import reaping
from core.record.ledger import Ledger
from tests.batch.lifecycle_parts import Lifecycle

PAST = datetime(2020, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def written(life: Lifecycle, *drafts: Draft) -> None:
    list(life.writer.write_many("t", drafts))
    life.parts.drain()


def ids(life: Lifecycle, table: str = "memory") -> set[str]:
    return {row["id"] for row in life.sql(f"SELECT id FROM {table}")}


def test_what_is_at_its_end_leaves_every_store_and_a_tombstone(life: Lifecycle) -> None:
    written(life, Draft(id="old", content="green tea", expires_at=PAST), Draft(id="new", content="black tea"))
    written(life, Draft(id="archived", content="a long text about tea that goes to the archive"))
    life.age(ids=["archived"])
    life.archive()
    life.sql("UPDATE memory SET expires_at = now() WHERE id = 'archived'")
    life.arrived()
    report = life.reap()
    assert (report.expired, report.purged, report.waiting, report.postponed) == (2, 2, 0, None)
    assert ids(life) == {"new"}
    assert set(life.parts.stamps()) == {embedding_id("t", "new")}
    assert life.objects() == []
    assert ids(life, "tombstone") == {"old", "archived"}
    assert ids(life, "memory_version") == set()
    assert {row["memory_id"] for row in life.sql("SELECT memory_id FROM outbox")} == set()
    assert life.reap().worked == 0


def test_a_purged_id_that_is_written_again_counts_on_from_its_tombstone(life: Lifecycle) -> None:
    written(life, Draft(id="a", content="green tea", expires_at=PAST))
    written(life, Draft(id="b", content="green tea", expires_at=PAST))
    life.reap()
    again = life.writer.write("t", Draft(id="a", content="written again"))
    (more,) = life.writer.write_many("t", [Draft(id="b", content="written again")])
    assert (again.version, more.version) == (3, 3)
    life.parts.drain()
    life.parts.assert_in_step()


def test_what_is_extended_between_look_and_purge_lives(life: Lifecycle, monkeypatch: pytest.MonkeyPatch) -> None:
    written(life, *[Draft(id=name, content=f"tea of {name}", expires_at=PAST) for name in ("a", "b")])
    life.sql("UPDATE memory SET expires_at = now() + interval '1 hour' WHERE id = 'a'")
    assert life.reap().expired == 1
    assert ids(life) == {"a"}
    written(life, Draft(id="c", content="tea of c", expires_at=PAST))
    original = reaping.purge

    def revived(*arguments: object) -> set[str]:
        life.writer.write("t", Draft(id="c", content="written again meanwhile"))
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("core.batch.reap.reaping.purge", revived)
    assert (life.reap().purged, ids(life)) == (0, {"a", "c"})
    monkeypatch.undo()
    life.parts.drain()
    life.parts.assert_in_step()
    assert life.get("c").content == "written again meanwhile"


def test_a_memory_somebody_is_just_extending_is_left_alone(life: Lifecycle) -> None:
    """The reaper's look and its deletion are one statement, which does not wait for who is faster."""
    written(life, Draft(id="a", content="green tea", expires_at=PAST), Draft(id="b", content="tea", expires_at=PAST))
    with psycopg.connect(life.url) as other:
        other.execute("UPDATE memory SET expires_at = now() + interval '1 hour' WHERE id = 'a'")
        assert life.reap().expired == 1
    assert life.reap().expired == 0
    assert ids(life) == {"a"}
    assert life.get("a").content == "green tea"


def test_the_row_stays_while_a_store_is_out_of_reach_or_a_worker_holds_it(
    life: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(life, Draft(id="a", content="green tea", expires_at=PAST))

    def away(*arguments: object) -> None:
        raise Unavailable("the index is away")

    monkeypatch.setattr(life.parts.index, "delete", away)
    report = life.reap()
    assert (report.expired, report.purged, report.postponed) == (1, 0, "purge: the index is away")
    with pytest.raises(NotFound):
        life.get("a")
    monkeypatch.undo()
    claim = life.parts.outbox.claim(uuid.uuid4(), 10, ["t"])
    assert claim is not None
    assert (life.reap().waiting, ids(life)) == (1, {"a"})
    life.sql("UPDATE outbox SET lease_until = now()")
    assert (life.reap().purged, ids(life)) == (1, set())


def test_a_deleted_row_stays_for_its_time(life: Lifecycle) -> None:
    written(life, Draft(id="a", content="green tea"))
    life.later(purge_after=timedelta(hours=1))
    life.writer.delete("t", "a")
    assert (life.reap().purged, ids(life)) == (0, {"a"})
    life.sql("UPDATE memory SET deleted_at = now() - interval '2 hours'")
    assert life.reap().purged == 1


def test_times_to_live_by_type(life: Lifecycle) -> None:
    rules = [
        Rule(type="turn", changes=(("time_to_live", 10 * DAY),)),
        Rule(tenant="t", type="fact", changes=(("time_to_live", None),)),
    ]
    life.reap_work = replace(life.reap_work, policies=Policies(rules, Policy(time_to_live=100 * DAY)))
    now = datetime.now(UTC)
    for kind in ("turn", "fact", "other"):
        for days in (1, 20, 200):
            draft = Draft(id=f"{kind}{days}", content="tea", type=kind, created_at=now - days * DAY)
            life.writer.write("t", draft)
    assert life.reap().expired == 3
    assert ids(life) == {"turn1", "fact1", "fact20", "fact200", "other1", "other20"}


def test_versions_events_and_tombstones_go_each_by_its_own_retention(life: Lifecycle) -> None:
    for number in range(3):
        written(life, Draft(id="a", content=f"version {number}"))
    written(life, Draft(id="b", content="tea", expires_at=PAST))
    life.reap()
    life.sql("UPDATE memory_version SET replaced_at = now() - interval '10 days' WHERE version = 1")
    life.sql("UPDATE event SET at = now() - interval '10 days' WHERE memory_id = 'a' AND version = 2")
    life.sql("UPDATE tombstone SET purged_at = now() - interval '10 days'")
    life.later(versions=11 * DAY, events=11 * DAY, tombstones=11 * DAY)
    assert life.reap().worked == 0
    life.later(versions=9 * DAY, events=9 * DAY, tombstones=9 * DAY)
    report = life.reap()
    assert (report.versions, report.events, report.tombstones) == (1, 1, 1)
    assert life.get("a").content == "version 2"


def test_a_deletion_stays_among_the_events_until_the_ledger_has_it(life: Lifecycle) -> None:
    written(life, Draft(id="a", content="tea", expires_at=PAST))
    life.reap()
    life.sql("UPDATE event SET at = now() - interval '10 days'")
    life.later(events=9 * DAY)
    life.reap()
    assert [row["kind"] for row in life.sql("SELECT kind FROM event")] == ["memory.deleted"]
    assert Ledger(life.parts.database, life.blobs).ship() == 1
    assert life.reap().events == 1
    assert life.sql("SELECT kind FROM event") == []


def test_orphans_are_swept_after_a_grace_time_that_spares_announced_puts(life: Lifecycle) -> None:
    written(life, *[Draft(id=name, content=f"a long text about {name} and tea") for name in ("a", "b", "c")])
    life.age()
    life.archive()
    life.restore("a", "b")
    life.sql("UPDATE archive_object SET live_until = now() - interval '2 days' WHERE memory_id <> 'b'")
    stray = archive_key("t", "late", 1, PAST)
    life.blobs.put(stray, b"a put that came too late")
    life.blobs.put("t/snapshots/1", b"not ours to judge")
    report = life.reap()
    assert report.objects == 1  # of `a`; `b` may still arrive, `c` is pointed at, the stray is young
    assert len(life.objects()) == 3
    later = datetime.now(UTC) + 2 * DAY
    life.reap_work = replace(life.reap_work, now=lambda: later)
    assert life.reap().objects == 1
    assert stray not in life.objects()
    assert life.blobs.stat("t/snapshots/1") is not None
    assert life.get("c").content == "a long text about c and tea"


def test_an_object_that_is_being_swept_cannot_be_announced_meanwhile(life: Lifecycle) -> None:
    written(life, Draft(id="a", content="a long text about tea"))
    life.age()
    key = archive_key("t", "a", 1, life.get("a").created_at)
    life.sql(
        "INSERT INTO archive_object (tenant, key, memory_id, version, live_until, swept_at)"
        " VALUES ('t', %s, 'a', 1, now(), now())",
        key,
    )
    report = life.archive()
    assert (report.archived, report.failed) == (0, {"a": "its object is just being swept"})
    life.sql("UPDATE archive_object SET live_until = now() - interval '2 days', swept_at = now() - interval '2 hours'")
    life.reap()
    assert life.archive().archived == 1


def test_delete_older_than_is_bounded_scoped_and_refuses_no_age(life: Lifecycle) -> None:
    drafts = [
        Draft(id=f"{session}{n}", content="tea", session=session, created_at=datetime.now(UTC) - n * DAY)
        for session in ("s", "x")
        for n in (1, 5, 9)
    ]
    written(life, *drafts)
    life.sql("UPDATE memory SET keep = true WHERE id = 's9'")
    with pytest.raises(Refused):
        life.writer.delete_older("t", timedelta(0))
    assert life.writer.delete_older("other", DAY) == 0
    assert life.writer.delete_older("t", 3 * DAY, session="s") == 1
    alive = {row["id"] for row in life.sql("SELECT id FROM memory WHERE deleted_at IS NULL")}
    assert alive == {"s1", "s9", "x1", "x5", "x9"}
    assert life.writer.delete_older("t", 3 * DAY) == 2


def test_tenants_do_not_reap_each_other(life: Lifecycle) -> None:
    for tenant in ("..", "acme", "acme/x"):
        life.writer.write(tenant, Draft(id="a", content="tea", expires_at=PAST))
        life.parts.drain(tenant)
    assert life.reap("acme").purged == 1
    assert {row["tenant"] for row in life.sql("SELECT tenant FROM memory")} == {"..", "acme/x"}
    assert len(life.parts.stamps("acme/x")) == 1


def test_plan_begins_with_what_is_at_its_end() -> None:
    assert [(one.tenant, one.phase) for one in plan(["a"])] == [("a", Phase.EXPIRE)]
    assert Portion(tenant="a").after == (reaping.BEGINNING, "")


spans = st.none() | st.integers(1, 100).map(lambda days: timedelta(days=days))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    policy=st.builds(
        Policy,
        cold_after=spans,
        archive_after=spans,
        spare_importance=st.floats(0, 1),
        time_to_live=spans,
    ),
    rests=st.integers(0, 120),
    age=st.integers(0, 120),
    importance=st.floats(0, 1),
    tier=st.sampled_from(["warm", "cold", "archive"]),
    keep=st.booleans(),
    ends=st.none() | st.integers(-50, 50),
)
def test_a_policy_decides_the_same_whatever_the_order_of_its_spans(
    policy: Policy, rests: int, age: int, importance: float, tier: str, keep: bool, ends: int | None
) -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    facts = Facts(
        id="a",
        version=1,
        type="x",
        importance=importance,
        tier=tier,  # type: ignore[arg-type]
        keep=keep,
        created_at=now - age * DAY,
        rests_since=now - rests * DAY,
        expires_at=None if ends is None else now + ends * DAY,
    )
    action = decide(facts, policy, now)
    over = (ends is not None and ends <= 0) or (policy.time_to_live is not None and age * DAY >= policy.time_to_live)
    assert not (keep and action)
    assert (action is Action.REAP) == (over and not keep)
    if action in (Action.ARCHIVE, Action.COLD):
        assert importance < policy.spare_importance
    if action is Action.ARCHIVE:
        assert policy.archive_after is not None
        assert rests * DAY >= policy.archive_after
    if tier == "archive":
        assert action in (None, Action.REAP)
