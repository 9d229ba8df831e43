"""The gate of a reindex: what is wrong with a new generation keeps it from serving."""

from __future__ import annotations

import uuid
from dataclasses import replace

import numpy as np
import pytest

from core.batch import reindex
from core.errors import Conflict, Refused
from core.model.generation import GenerationState as State
from core.model.memory import Draft, embedding_id
from core.model.point import Payload, Point, Stamp
from core.model.reindex import GATE_CHECKS
from core.record.building import statuses
from tests.batch.reindexing import NOW, Rig, bounded, execute, gated, write


def failed(rig: Rig, job: reindex.Job) -> set[str]:
    verdict = rig.verify(job)
    assert not verdict.passed
    with pytest.raises(Conflict):
        rig.swap(job)
    assert rig.live().number == 1
    return {check.name for check in verdict.checks if not check.passed}


def test_the_gate_keeps_its_verdict_with_every_figure(rig: Rig) -> None:
    job = gated(rig)
    verdict = rig.verify(job)
    assert {check.name for check in verdict.checks} == GATE_CHECKS
    (_, building) = statuses(rig.parts.database, ["t"])
    assert (building.verdict, building.state) == (verdict, State.VERIFIED)
    assert (building.fed, building.ranges_left, building.running) == (40, 0, True)


def test_a_gate_over_no_rows_fails(rig: Rig) -> None:
    write(rig, 3)
    for name in ("m000", "m001", "m002"):
        rig.parts.writer.delete("t", name)
    job = rig.begun()
    rig.catch_up(job)
    assert "records" in failed(rig, job)


def test_a_missing_point_fails_the_gate_is_mended_and_passes_the_next(rig: Rig) -> None:
    job = gated(rig)
    rig.parts.index.delete(job.generation.collection, {embedding_id("t", "m007"): 99})
    assert failed(rig, job) == {"agreement"}
    rig.catch_up(job)
    rig.drain()
    assert rig.verify(job).passed


def test_an_orphan_fails_the_gate_and_is_removed(rig: Rig) -> None:
    job = gated(rig)
    stray = Payload(uuid.UUID(int=7), Stamp(3, "h"), {"tenant": "t", "id": "stray", "version": 3, "text_hash": "h"})
    rig.parts.index.upsert(job.generation.collection, [Point(stray, np.ones(48, dtype=np.float32))])
    assert failed(rig, job) == {"agreement"}
    assert rig.verify(job).passed


def test_a_stale_version_fails_the_gate(rig: Rig, database_url: str) -> None:
    job = gated(rig)
    rig.parts.writer.update("t", "m003", {"importance": 0.9}, 1)
    execute(database_url, "DELETE FROM outbox")  # as if an index write had been lost
    assert failed(rig, job) == {"agreement"}


def test_what_waits_is_not_settled_and_fails_nothing(rig: Rig) -> None:
    job = gated(rig)
    rig.parts.writer.update("t", "m003", {"content": "on its way"}, 1)
    rig.parts.writer.delete("t", "m004")
    rig.parts.writer.write("t", Draft(id="fresh", content="on its way too"))
    verdict = rig.verify(job)
    assert verdict.passed, verdict.reasons
    (agreement,) = [check for check in verdict.checks if check.name == "agreement"]
    assert agreement.note == "3 not settled"


def test_a_wrong_payload_fails_the_gate(rig: Rig) -> None:
    job = gated(rig)
    point = embedding_id("t", "m005")
    (fields,) = rig.parts.index.payloads(job.generation.collection, [point]).values()
    vector = rig.parts.index.vectors(job.generation.collection, [point])[point]
    wrong = Payload(point, Stamp(fields["version"], fields["text_hash"]), {**fields, "scope": "elsewhere"})
    rig.parts.index.upsert(job.generation.collection, [Point(wrong, vector)])
    assert failed(rig, job) == {"payloads"}


def test_vectors_that_are_all_the_same_fail_the_gate(rig: Rig) -> None:
    write(rig, 40)
    embedder = rig.models[rig.space("new").fingerprint]
    embedder._vector = lambda index, text: np.eye(1, 48, dtype=np.float32)[0]  # type: ignore[method-assign]
    job = rig.begun()
    rig.catch_up(job)
    assert "vectors" in failed(rig, job)


def test_too_little_overlap_fails_the_gate(rig: Rig) -> None:
    job = gated(rig)
    bounded(rig, overlap=1.0)
    assert failed(rig, job) == {"overlap"}


def test_real_queries_are_asked_in_both_spaces_when_they_are_known(rig: Rig) -> None:
    job = gated(rig)
    rig.work = replace(
        rig.work, gate=replace(rig.work.gate, queries=lambda tenant: ["note about subject 3", "subject"])
    )
    verdict = rig.verify(job)
    assert [check.note for check in verdict.checks if check.name == "queries"] == ["of 2"]


def test_more_set_aside_than_allowed_fails_the_gate_and_a_little_does_not(rig: Rig) -> None:
    write(rig, 40)
    embedder = rig.models[rig.space("new").fingerprint]

    def refuse(texts: list[str]) -> None:
        if bad := [index for index, text in enumerate(texts) if text.endswith("subject 9")]:
            raise Refused("not this one", index=bad[0])

    embedder.before = refuse  # type: ignore[assignment]
    job = rig.begun()
    rig.catch_up(job)
    assert failed(rig, job) == {"set aside"}
    bounded(rig, set_aside=0.05)
    assert rig.verify(job).passed


def test_a_check_that_raises_or_is_missing_fails_the_gate(rig: Rig) -> None:
    job = gated(rig)
    rig.parts.index.drop(job.generation.collection)
    assert {"agreement", "payloads", "vectors", "probes", "overlap"} <= failed(rig, job)
    (_, building) = statuses(rig.parts.database, ["t"])
    assert building.verdict is not None
    assert "records: not made" in building.verdict.reasons


def test_now_is_the_time_of_the_verdict(rig: Rig) -> None:
    job = gated(rig)
    assert rig.verify(job).at == NOW
