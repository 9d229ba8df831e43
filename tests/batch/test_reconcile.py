"""Reconcile: what differs is found and mended, each kind by the path that writes it anyway, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from core.batch import reconcile
from core.model.drift import Depth, Kind, Verdict
from core.model.memory import Draft, embedding_id
from core.record import drift as record
from tests.batch.drifting import Drifting, by_kind, found_of, opened

DEPTHS = [Depth.DIGESTS, Depth.FULL]


@pytest.fixture
def drift(database_url: str, tmp_path: Path) -> Iterator[Drifting]:
    with opened(database_url, tmp_path) as rig:
        yield rig


def test_a_plan_cuts_large_tenants_into_pieces_that_share_the_cap() -> None:
    looks = reconcile.plan([("small", 10), ("large", 250), ("none", 0)], 100)
    assert [(one.tenant, one.first, one.last, one.names, one.parts) for one in looks] == [
        ("small", 0, 255, True, 1),
        ("large", 0, 84, True, 3),
        ("large", 85, 169, False, 3),
        ("large", 170, 255, False, 3),
        ("none", 0, 255, True, 1),
    ]
    assert len(reconcile.plan([("huge", 100_000_000)], 1_000_000)) == 100


@pytest.mark.parametrize("depth", list(Depth))
def test_what_is_in_step_is_clean_at_every_depth_and_nothing_is_asked_for(drift: Drifting, depth: Depth) -> None:
    drift.write(120)
    for report in drift.look(depth):
        assert (report.verdict, report.findings, report.alarm) == (Verdict.CLEAN, (), ""), report
    assert drift.waiting() == 0
    assert drift.index_report(depth).points == 120


@pytest.mark.parametrize("depth", DEPTHS)
def test_lost_points_are_found_and_embedded_again_from_what_is_kept(drift: Drifting, depth: Depth) -> None:
    drift.write(200)
    drift.lose("m0003", "m0150")
    assert by_kind(drift.mend(depth)) == {Kind.MISSING: (2, 0)}
    drift.assert_in_step()
    assert drift.index_report().verdict is Verdict.CLEAN


@pytest.mark.parametrize("depth", DEPTHS)
def test_points_of_an_older_version_are_brought_up_and_those_of_an_unknown_one_are_replaced(
    drift: Drifting, depth: Depth
) -> None:
    drift.write(100)
    for n in range(5):
        drift.parts.writer.update("t", f"m{n:04}", {"importance": 0.9}, 1)
    drift.rig.drain()
    drift.turn_to("m0001", 1)
    drift.turn_to("m0050", 7)
    report = drift.mend(depth)
    assert by_kind(report) == {Kind.STALE: (1, 0), Kind.AHEAD: (1, 0)}
    assert found_of(report, Kind.AHEAD).samples == ("m0050",)
    drift.assert_in_step()


@pytest.mark.parametrize("depth", DEPTHS)
def test_orphans_are_taken_out(drift: Drifting, depth: Depth) -> None:
    drift.write(100)
    drift.add_orphans(4)
    assert by_kind(drift.mend(depth)) == {Kind.ORPHAN: (4, 0)}
    drift.assert_in_step()


def test_a_point_of_a_deleted_memory_is_taken_out(drift: Drifting) -> None:
    drift.write(50)
    drift.parts.writer.delete("t", "m0007")
    drift.rig.drain()
    (stamp,) = [one for point, one in drift.points().items() if point == embedding_id("t", "m0008")]
    assert stamp
    drift.turn_to("m0008", 1)
    collection, point = drift.generation().collection, embedding_id("t", "m0007")
    drift.add_orphans(1)
    assert by_kind(drift.mend()) == {Kind.ORPHAN: (1, 0)}
    assert point not in drift.index.stamps(collection, [point])
    drift.assert_in_step()


def test_a_wrong_payload_is_written_anew_without_embedding(drift: Drifting) -> None:
    drift.write(40)
    drift.turn_to("m0005", 1, importance=0.1, tags=["stranger"])
    before = drift.embedded()
    assert by_kind(drift.mend(Depth.FULL)) == {Kind.PAYLOAD: (1, 0)}
    assert drift.embedded() == before
    point = embedding_id("t", "m0005")
    fields = drift.index.payloads(drift.generation().collection, [point])[point]
    assert (fields["importance"], fields["tags"]) == (0.5, [])
    drift.assert_in_step()
    assert drift.index_report(Depth.FULL).verdict is Verdict.CLEAN


def test_a_float_whose_last_bit_the_index_changed_is_no_drift(drift: Drifting) -> None:
    drift.write(3)
    drift.parts.writer.update("t", "m0001", {"importance": 0.9387647833696341}, 1)
    drift.rig.drain()
    assert drift.index_report(Depth.FULL).findings == ()


def test_a_vector_of_another_text_is_found_by_the_sample_and_embedded_anew(drift: Drifting) -> None:
    drift.write(15)
    drift.turn_to("m0005", 1, text_hash="of another text, or another space")
    before = drift.embedded()
    assert by_kind(drift.mend(sample=100)) == {Kind.VECTOR: (1, 0)}
    assert drift.embedded() == before + 1
    drift.assert_in_step()


def test_a_dry_run_finds_the_same_and_changes_nothing(drift: Drifting) -> None:
    drift.write(60)
    drift.lose("m0003")
    drift.add_orphans(2)
    drift.turn_to("m0009", 5)
    before = drift.points()
    report = next(one for one in drift.look(Depth.FULL, dry=True) if one.store == "index")
    assert by_kind(report) == {Kind.MISSING: (1, 1), Kind.ORPHAN: (2, 2), Kind.AHEAD: (1, 1)}
    assert {one.why for one in report.findings} == {"dry run"}
    assert drift.waiting() == 0
    assert drift.remove().removed == 0
    assert drift.points() == before
    assert drift.sql("SELECT count(*) FROM drift_report") == [(0,)]


def test_no_more_than_the_cap_is_asked_for_in_one_run_and_an_alarm_says_so(drift: Drifting) -> None:
    drift.write(100)
    drift.lose(*(f"m{n:04}" for n in range(10)))
    report = drift.mend(cap=4)
    assert by_kind(report) == {Kind.MISSING: (10, 6)}
    assert "run it again" in report.alarm
    assert found_of(report, Kind.MISSING).why == "beyond the cap of a run"
    for _ in range(2):
        drift.mend(cap=4)
    drift.assert_in_step()


def test_when_too_many_points_would_have_to_go_none_goes_and_a_person_is_asked(drift: Drifting) -> None:
    """A record restored from an older backup knows little of what its index holds."""
    drift.write(100)
    drift.sql("DELETE FROM memory WHERE id >= 'm0070'")
    report = drift.mend()
    assert by_kind(report) == {Kind.ORPHAN: (30, 30)}
    assert "memory recover --restored" in report.alarm
    assert len(drift.points()) == 100


def test_what_is_younger_than_the_minimum_age_is_not_judged(drift: Drifting) -> None:
    drift.write(30)
    drift.lose("m0003")
    report = drift.mend(minimum_age=timedelta(hours=1))
    assert (report.verdict, report.unsettled, report.findings) == (Verdict.UNSETTLED, 1, ())
    assert drift.waiting() == 0
    drift.add_orphans(1)
    report = drift.index_report(minimum_age=timedelta(hours=1))
    assert by_kind(report) == {Kind.ORPHAN: (1, 0)}
    assert reconcile.remove(drift.work, "t", 10).removed == 1


def test_an_orphan_waits_the_minimum_age_and_is_looked_at_again_before_it_goes(drift: Drifting) -> None:
    drift.write(30)
    drift.add_orphans(2)
    drift.index_report()
    patient = replace(drift.work, rules=replace(drift.work.rules, minimum_age=timedelta(hours=1)))
    assert (reconcile.remove(patient, "t", 10).removed, reconcile.remove(patient, "t", 10).waiting) == (0, 2)
    drift.parts.writer.write("t", Draft(id="nobody wrote 0", content="now somebody has"))
    drift.rig.drain()
    done = drift.remove()
    assert (done.removed, done.spared, done.waiting) == (1, 1, 0)
    drift.assert_in_step()


def test_work_that_waits_is_no_drift_and_what_was_set_aside_is_told_apart(drift: Drifting) -> None:
    drift.write(40)
    list(drift.parts.writer.write_many("t", []))
    drift.parts.writer.update("t", "m0001", {"content": "said anew"}, 1)
    drift.parts.writer.delete("t", "m0002")
    report = drift.index_report()
    assert (report.verdict, report.unsettled, report.findings) == (Verdict.UNSETTLED, 2, ())
    drift.sql("UPDATE outbox SET set_aside_at = now(), reason = 'refused' WHERE memory_id = 'm0001'")
    report = drift.index_report()
    assert (report.unsettled, report.set_aside, report.whole) == (1, 1, False)


def test_numbers_that_disagree_start_the_comparison_and_numbers_that_agree_cost_no_walk(drift: Drifting) -> None:
    drift.write(60)
    assert drift.index_report(Depth.COUNTS).depth is Depth.COUNTS
    drift.lose("m0001")
    report = drift.mend(Depth.COUNTS)
    assert (report.depth, by_kind(report)) == (Depth.DIGESTS, {Kind.MISSING: (1, 0)})
    drift.assert_in_step()


def test_only_stretches_that_disagree_are_walked(drift: Drifting, monkeypatch: pytest.MonkeyPatch) -> None:
    drift.write(300)
    drift.lose("m0001")
    asked = []
    page = record.page
    monkeypatch.setattr(record, "page", lambda *a: asked.append(a[2]) or page(*a))
    drift.mend()
    walked = [span for span in asked if span.last.int - span.first.int == (1 << 120) - 1]
    assert [span.first.bytes[0] for span in walked] == [embedding_id("t", "m0001").bytes[0]]
    drift.assert_in_step()


def test_figures_that_are_wrong_are_counted_anew_and_no_point_is_touched(drift: Drifting) -> None:
    drift.write(50)
    drift.index_report()
    assert record.fold(drift.parts.database, "t") == 0
    drift.sql("UPDATE point_digest SET points = points + 1, digest = digest + 7 WHERE points > 0")
    before = drift.points()
    report = drift.mend()
    assert by_kind(report)[Kind.FIGURES][1] == 0
    assert set(by_kind(report)) == {Kind.FIGURES}
    assert drift.points() == before
    drift.assert_in_step()
    assert drift.index_report().verdict is Verdict.CLEAN


@pytest.mark.parametrize("parts", [1, 3, 256])
def test_a_tenant_in_pieces_is_found_and_mended_as_a_whole(drift: Drifting, parts: int) -> None:
    drift.write(100)
    drift.lose("m0001", "m0050", "m0099")
    drift.add_orphans(3)
    report = next(one for one in drift.look(parts=parts, removals=1000) if one.store == "index")
    assert by_kind(report) == {Kind.MISSING: (3, 0), Kind.ORPHAN: (3, 0)}
    drift.remove()
    drift.rig.drain()
    drift.assert_in_step()


def test_reports_are_kept_and_say_when_a_tenant_was_clean_and_when_something_was_found(drift: Drifting) -> None:
    drift.write(50)
    drift.index_report(Depth.COUNTS)
    drift.index_report()
    drift.lose("m0001")
    drift.mend()
    kept = [one for one in record.reports(drift.parts.database, ["t"], 50) if one.store == "index"]
    assert [one.verdict for one in kept] == [Verdict.DRIFT, Verdict.CLEAN]  # by numbers alone: not worth a report
    assert found_of(kept[0], Kind.MISSING).samples == ("m0001",)
    (cover,) = [one for one in record.coverage(drift.parts.database, ["t"]) if one.store == "index"]
    assert (cover.records, cover.points, cover.waiting, cover.verdict) == (50, 49, 0, "drift")
    assert cover.clean_at is not None
    assert cover.found_at is not None
    assert cover.found_at > cover.clean_at
