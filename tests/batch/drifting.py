"""A reconcile over real stores, and the faults its tests put into them. Tenant `t` unless named."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from core.batch import reconcile
from core.batch.reconcile import ReconcileWork, Report
from core.index.drift_names import Names
from core.model.drift import Depth, DriftRules, Found, Kind, Look, StoreReport, looks_of
from core.model.generation import Generation
from core.model.memory import Draft, embedding_id
from core.model.point import Payload, Point, Stamp
from core.ports import VectorIndex
from core.record import drift
from core.record.database import Database, Limits
from tests.batch.conftest import Parts, assemble
from tests.batch.reindexing import Rig, rig_of
from tests.contract.fake_locks import FakeLocks

AT_ONCE = timedelta(0)
RULES = DriftRules(minimum_age=AT_ONCE, removals=10, removed_share=0.05, sample=20)
MINUTE = timedelta(minutes=1)


@dataclass
class Drifting:
    """Parts, a reindex over them, and the reconcile chore."""

    rig: Rig
    url: str
    root: Path
    work: ReconcileWork

    @property
    def parts(self) -> Parts:
        return self.rig.parts

    @property
    def index(self) -> Any:
        return self.parts.index

    def write(self, count: int, tenant: str = "t", text: str = "a note about", first: int = 0) -> None:
        drafts = [Draft(id=f"m{n:04}", content=f"{text} {n}") for n in range(first, first + count)]
        assert len(list(self.parts.writer.write_many(tenant, drafts))) == count
        self.rig.drain(tenant)

    def look(
        self, depth: Depth = Depth.DIGESTS, tenant: str = "t", *, dry: bool = False, parts: int = 1, **rules: Any
    ) -> list[StoreReport]:
        """One look, as the flow has it, at all pieces of a tenant; its reports."""
        return reconcile.total(self.looks(depth, tenant, dry=dry, parts=parts, **rules))

    def looks(
        self, depth: Depth = Depth.DIGESTS, tenant: str = "t", *, dry: bool = False, parts: int = 1, **rules: Any
    ) -> list[Report]:
        work = replace(self.work, rules=replace(self.work.rules, **rules))
        return [reconcile.step(work, one, depth, dry=dry) for one in looks_of([(tenant, parts)], 1)]

    def index_report(self, depth: Depth = Depth.DIGESTS, tenant: str = "t", **rules: Any) -> StoreReport:
        """What is said of the last generation's index."""
        return [one for one in self.look(depth, tenant, **rules) if one.store == "index"][-1]

    def mend(self, depth: Depth = Depth.DIGESTS, tenant: str = "t", **rules: Any) -> StoreReport:
        """A look, the queue of orphans worked off, and the drain."""
        report = self.index_report(depth, tenant, **rules)
        self.remove(tenant)
        self.rig.drain(tenant)
        return report

    def remove(self, tenant: str = "t") -> Any:
        return reconcile.remove(self.work, tenant, 10_000)

    def generation(self, tenant: str = "t") -> Generation:
        return self.rig.live(tenant)

    def points(self, tenant: str = "t") -> dict[uuid.UUID, Stamp]:
        return dict(self.index.scroll(self.generation(tenant).collection))

    def lose(self, *ids: str, tenant: str = "t") -> None:
        """Points vanish."""
        doomed = {embedding_id(tenant, one): 2**52 for one in ids}
        self.index.delete(self.generation(tenant).collection, doomed)

    def turn_to(self, memory_id: str, version: int, tenant: str = "t", **fields: Any) -> None:
        """A point says another version, or other fields."""
        collection, point = self.generation(tenant).collection, embedding_id(tenant, memory_id)
        payload = {**self.index.payloads(collection, [point])[point], "version": version, **fields}
        vector = self.index.vectors(collection, [point])[point]
        self.index.delete(collection, {point: 2**52})
        self.index.upsert(collection, [Point(Payload(point, Stamp(version, payload["text_hash"]), payload), vector)])

    def add_orphans(self, count: int, tenant: str = "t", version: int = 1) -> None:
        """Points of memories nobody wrote."""
        collection = self.generation(tenant).collection
        (vector,) = self.index.vectors(collection, [next(iter(self.points(tenant)))]).values()
        points = []
        for n in range(count):
            point = embedding_id(tenant, f"nobody wrote {n}")
            fields = {"tenant": tenant, "id": f"nobody wrote {n}", "version": version, "text_hash": "x"}
            points.append(Point(Payload(point, Stamp(version, "x"), fields), vector))
        self.index.upsert(collection, points)

    def waiting(self, tenant: str = "t") -> int:
        return sum(one.waiting for one in self.parts.outbox.backlog([tenant]))

    def embedded(self) -> int:
        return len(self.parts.embedder.texts)

    def sql(self, statement: str) -> list[Any]:
        with psycopg.connect(self.url) as session:
            cursor = session.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def assert_in_step(self, tenant: str = "t") -> None:
        self.rig.assert_in_step(tenant)
        assert drift.recount(self.parts.database, tenant, 0, 255, dry=True) == []

    def close(self) -> None:
        self.parts.index.close()
        self.parts.database.close()


def drifting(url: str, root: Path, index: VectorIndex | None = None, rules: DriftRules = RULES) -> Drifting:
    """A reconcile on this database and below this folder."""
    parts = assemble(url, root / "vectors", MINUTE)
    rig = rig_of(parts, index=index)
    work = ReconcileWork(
        database=parts.database,
        index=index or parts.index,
        names=Names(parts.database, index or parts.index, rig.work.swapper, rig.remover.drop),
        locks=FakeLocks(),
        rules=rules,
        chance=random.Random(5),
        new_id=uuid.uuid4,
        keep=MINUTE,
    )
    return Drifting(rig, url, root, work)


@contextmanager
def opened(url: str, root: Path, **chosen: Any) -> Iterator[Drifting]:
    rig = drifting(url, root, **chosen)
    try:
        yield rig
    finally:
        rig.close()


def by_kind(report: StoreReport) -> dict[Kind, tuple[int, int]]:
    """Found and left, by kind."""
    return {one.kind: (one.found, one.left) for one in report.findings}


def found_of(report: StoreReport, kind: Kind) -> Found:
    return next(one for one in report.findings if one.kind is kind)


def other_database(url: str) -> Database:
    database = Database(url, Limits())
    database.open()
    return database


WHOLE = Look(tenant="t")
