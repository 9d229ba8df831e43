"""Drift: how a store may disagree with the record, how deep a look goes, and what it found."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

STRETCHES = 256
SAMPLES = 20


class Depth(StrEnum):
    """How deep a look goes: numbers only; digests of stretches of ids, too; every point, with payloads."""

    COUNTS = "counts"
    DIGESTS = "digests"
    FULL = "full"


class Verdict(StrEnum):
    """How a look ended. Only `clean` says that all that was to be compared was compared, and agreed.

    `unsettled`: what differs may be work under way. `skipped`: nothing can be said, the note tells why.
    """

    CLEAN = "clean"
    DRIFT = "drift"
    UNSETTLED = "unsettled"
    SKIPPED = "skipped"


class Kind(StrEnum):
    """What is wrong with a point, a name or a value."""

    MISSING = "missing"
    STALE = "stale version"
    AHEAD = "version the record does not know"
    ORPHAN = "orphan"
    PAYLOAD = "wrong payload"
    VECTOR = "wrong space"
    GONE = "collection gone"
    ALIAS = "wrong alias"
    STRANGER = "unregistered collection"
    FIGURES = "wrong figures"
    CACHED = "wrong version in the cache"
    OBJECT_GONE = "object gone"
    OBJECT_DAMAGED = "object not what was put"
    OBJECT_OF_NOBODY = "object of nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRules:
    """The rails. Nothing younger than `minimum_age` is judged.

    One look at a generation hands at most `cap` memories to the outbox. It takes no point out of an index when more
    than `removals` of them, and more than the share `removed_share` of all, would have to go. `sample` points have
    payload and vector looked at. What is unsettled for longer than `patience` is compared by digests, but not more
    often than once in `pause`.
    """

    minimum_age: timedelta = timedelta(seconds=10)
    cap: int = 20_000
    removals: int = 1000
    removed_share: float = 0.05
    sample: int = 500
    patience: timedelta = timedelta(seconds=20)
    pause: timedelta = timedelta(minutes=5)
    keep: timedelta = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One kind of drift in one store. `repaired` ones were handed to the outbox or the queue of orphans, or set right.

    `why` says why the others are left.
    """

    kind: Kind
    found: int
    repaired: int = 0
    why: str = ""
    samples: tuple[str, ...] = ()

    @property
    def left(self) -> int:
        """How many are as wrong as they were."""
        return self.found - self.repaired


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReport:
    """What a look at one store of a tenant found. `generation` 0: it is of no generation.

    `recover`: the collection is gone or mostly gone, and is for the recover chore. `alarm`: a rail was reached, and
    a person has to look. `unsettled` and `set_aside` count what differs for a known reason.
    """

    tenant: str
    store: str
    generation: int = 0
    depth: Depth
    verdict: Verdict
    records: int | None = None
    points: int | None = None
    unsettled: int = 0
    set_aside: int = 0
    findings: tuple[Found, ...] = ()
    note: str = ""
    recover: bool = False
    alarm: str = ""
    dry: bool = False
    at: datetime | None = None

    @property
    def found(self) -> int:
        """How much is or was wrong."""
        return sum(one.found for one in self.findings)

    @property
    def left(self) -> int:
        """How much of it still is, as far as this look did something about it."""
        return sum(one.left for one in self.findings)

    @property
    def whole(self) -> bool:
        """Whether nothing is left, and everything could be looked at."""
        return self.left == 0 and self.verdict is not Verdict.SKIPPED and not self.set_aside


@dataclass(frozen=True, slots=True)
class Span:
    """Point ids from `first` to `last`, both included."""

    first: uuid.UUID
    last: uuid.UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One piece of a run: stretches of a tenant's ids in all of its indexes.

    `names`: with the first piece of a tenant come its aliases, its collections and its cached values. `parts`: in
    how many pieces the tenant is looked at, which share the cap.
    """

    tenant: str
    first: int = 0
    last: int = STRETCHES - 1
    names: bool = True
    parts: int = 1

    @property
    def whole(self) -> bool:
        """Whether it is all of the tenant's ids."""
        return self.parts == 1


@dataclass(slots=True)
class Tally:
    """What a look gathers of one generation, by kind: all are counted, `most` of each are kept to be repaired.

    `ids` are of memories, or of points nobody knows the memory of; `removals` are points to be taken out.
    """

    most: int
    ids: dict[Kind, dict[str, None]] = field(default_factory=dict)
    removals: dict[uuid.UUID, tuple[int, Kind]] = field(default_factory=dict)
    counts: dict[Kind, int] = field(default_factory=dict)
    unsettled: int = 0
    set_aside: int = 0

    def note(self, kind: Kind, name: str) -> None:
        """One more of a kind; noted before: nothing."""
        kept = self.ids.setdefault(kind, {})
        if name in kept:
            return
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if len(kept) < self.most:
            kept[name] = None

    def remove(self, point: uuid.UUID, version: int, kind: Kind, name: str) -> None:
        """One more of a kind that only taking the point out mends."""
        self.note(kind, name)
        if len(self.removals) < self.most:
            self.removals[point] = (version, kind)

    @property
    def total(self) -> int:
        """How much is wrong."""
        return sum(self.counts.values())


def spans_of(stretches: Iterable[int]) -> list[Span]:
    """Stretches as spans of ids, those side by side as one."""
    spans: list[Span] = []
    for first, last in _runs(sorted(set(stretches))):
        spans.append(Span(uuid.UUID(int=first << 120), uuid.UUID(int=((last + 1) << 120) - 1)))
    return spans


def looks_of(tenants: Iterable[tuple[str, int]], most: int) -> list[Look]:
    """Tenants with their numbers of records as pieces of about `most` records, each tenant once, in order."""
    looks: list[Look] = []
    for tenant, records in dict(tenants).items():
        parts = min(STRETCHES, max(1, -(-records // most)))
        edges = [part * STRETCHES // parts for part in range(parts + 1)]
        for number, (first, end) in enumerate(itertools.pairwise(edges)):
            looks.append(Look(tenant=tenant, first=first, last=end - 1, names=number == 0, parts=parts))
    return looks


def merged(reports: Sequence[StoreReport]) -> list[StoreReport]:
    """Reports of pieces as one for each tenant, store and generation: sums, and the worst verdict."""
    found: dict[tuple[str, str, int], StoreReport] = {}
    for report in reports:
        key = (report.tenant, report.store, report.generation)
        found[key] = report if key not in found else _joined(found[key], report)
    return list(found.values())


def as_plain(findings: Iterable[Found]) -> list[dict[str, Any]]:
    """Findings as the record keeps them."""
    return [
        {
            "kind": one.kind.value,
            "found": one.found,
            "repaired": one.repaired,
            "why": one.why,
            "samples": list(one.samples),
        }
        for one in findings
    ]


def from_plain(kept: Iterable[Mapping[str, Any]]) -> tuple[Found, ...]:
    """Findings the record kept."""
    return tuple(
        Found(
            kind=Kind(one["kind"]),
            found=int(one["found"]),
            repaired=int(one["repaired"]),
            why=str(one["why"]),
            samples=tuple(one["samples"]),
        )
        for one in kept
    )


_WORST = (Verdict.SKIPPED, Verdict.DRIFT, Verdict.UNSETTLED, Verdict.CLEAN)


def _joined(one: StoreReport, other: StoreReport) -> StoreReport:
    kinds: dict[Kind, Found] = {}
    for found in (*one.findings, *other.findings):
        known = kinds.get(found.kind, Found(kind=found.kind, found=0))
        kinds[found.kind] = replace(
            known,
            found=known.found + found.found,
            repaired=known.repaired + found.repaired,
            why=known.why or found.why,
            samples=(*known.samples, *found.samples)[:SAMPLES],
        )
    return replace(
        one,
        verdict=min(one.verdict, other.verdict, key=_WORST.index),
        records=_sum(one.records, other.records),
        points=_sum(one.points, other.points),
        unsettled=one.unsettled + other.unsettled,
        set_aside=one.set_aside + other.set_aside,
        findings=tuple(kinds.values()),
        note=one.note or other.note,
        recover=one.recover or other.recover,
        alarm=one.alarm or other.alarm,
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
