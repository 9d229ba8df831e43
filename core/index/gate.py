"""The gate a new generation passes before it serves: what it holds, whether it can be searched, how well, how fast."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from core.errors import EngineError
from core.index.agreement import Agreement, Wanted, agreement
from core.index.opening import Opening, as_they_are
from core.index.vectors import checked
from core.model.generation import Generation
from core.model.memory import Memory
from core.model.point import Hit, Vector, payload_of, same_fields
from core.model.query import Filters, Selection
from core.model.reindex import Check, GateBounds, GateVerdict
from core.model.space import EmbeddingSpace, text_hash
from core.ports import Embedder, VectorIndex
from core.record import memories
from core.record.database import Database

TOP = 10
SAME = 0.9999
LENGTH_OFF = 1e-3
COLLAPSED = 0.5
Queries = Callable[[str], Sequence[str]]


def no_queries(_tenant: str) -> Sequence[str]:
    """Where nobody remembers what was asked."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Judges one generation beside the live one. `queries` gives a tenant's recent real queries, if any are known."""

    database: Database
    index: VectorIndex
    embedder_of: Callable[[EmbeddingSpace], Embedder]
    clock: Callable[[], float]
    bounds: GateBounds = field(default_factory=GateBounds)
    queries: Queries = no_queries
    opened: Opening = as_they_are

    def judge(
        self, new: Generation, live: Generation, chance: random.Random, now: datetime
    ) -> tuple[GateVerdict, Agreement]:
        """The verdict, and what of the collection disagrees with the record. A check that raises has failed."""
        found = Agreement()
        checks: list[Check] = []
        try:
            found = agreement(self.database, self.index, new, self.bounds.sample, chance)
        except EngineError as problem:
            checks.append(Check(name="agreement", passed=False, note=problem.message))
        else:
            checks += self._agreement_checks(found)
        judged = _Sampled(self, new, live, found.sample)
        for names, make in judged.checks():
            try:
                checks += make()
            except EngineError as problem:
                checks += [Check(name=name, passed=False, note=problem.message) for name in names]
        return GateVerdict(checks=tuple(checks), at=now), found

    def _agreement_checks(self, found: Agreement) -> list[Check]:
        # What is set aside is in no sample, and counts among the records.
        share = found.set_aside / found.records if found.records else 0.0
        short = "the walk was cut short" if found.cut_short else f"{found.unsettled} not settled"
        return [
            Check(name="records", passed=found.records > 0, figure=found.records, bound=1),
            Check(name="agreement", passed=found.disagreeing == 0, figure=found.disagreeing, bound=0, note=short),
            Check(
                name="set aside",
                passed=share <= self.bounds.set_aside,
                figure=round(share, 6),
                bound=self.bounds.set_aside,
                note=f"{found.set_aside} of {found.records}",
            ),
        ]


class _Sampled:
    """The checks over a sample of points both sides agree on."""

    def __init__(self, gate: Gate, new: Generation, live: Generation, sample: Sequence[Wanted]) -> None:
        self._gate = gate
        self._new = new
        self._live = live
        self._sample = {one.memory_id: one for one in sample}
        self._took: dict[int, list[float]] = {new.number: [], live.number: []}

    def checks(self) -> list[tuple[tuple[str, ...], Callable[[], list[Check]]]]:
        """Every check with the names it answers for, in order: latency is told from the searches before it."""
        return [
            (("payloads",), self._payloads),
            (("vectors",), self._vectors),
            (("probes",), self._probes),
            (("overlap",), self._overlap),
            (("queries",), self._queries),
            (("latency",), self._latency),
        ]

    def _payloads(self) -> list[Check]:
        """Every field of the payload is what the record says."""
        with self._gate.database.tenant(self._new.tenant) as session:
            hash_key = memories.keys(session).hash_key
            wanted, _ = memories.fetch_to_index(session, self._new.tenant, list(self._sample))
        stored = self._gate.index.payloads(self._new.collection, [one.point for one in self._sample.values()])
        space, seen, wrong = self._new.space, 0, 0
        for memory_id, memory in self._gate.opened(wanted)[0].items():
            if memory.version != self._sample[memory_id].version:
                continue  # written since: it is compared when it has settled
            seen += 1
            text = space.document_text(memory.title, memory.content)
            wanted_fields = payload_of(memory, text_hash(text, hash_key)).fields
            wrong += not same_fields(stored.get(memory.embedding_id, {}), wanted_fields)
        return [Check(name="payloads", passed=seen > 0 and wrong == 0, figure=wrong, bound=0, note=f"of {seen}")]

    def _vectors(self) -> list[Check]:
        """Finite, of length one, of the space's width, and other texts have other vectors."""
        points = [one.point for one in self._sample.values()]
        vectors = self._gate.index.vectors(self._new.collection, points)
        stamps = self._gate.index.stamps(self._new.collection, points)
        of_text = {stamps[point].text_hash: row for point, row in vectors.items() if point in stamps}
        ill = sum(not _healthy(row, self._new.space.dimensions) for row in vectors.values())
        same = 1 - len({row.tobytes() for row in of_text.values()}) / len(of_text) if of_text else 1.0
        few = len(of_text) < TOP
        return [
            Check(
                name="vectors",
                passed=bool(of_text) and ill == 0 and (few or same <= COLLAPSED),
                figure=ill,
                bound=0,
                note=f"of {len(vectors)}; {same:.0%} of the texts share another's",
            )
        ]

    def _probes(self) -> list[Check]:
        """A stored vector, searched for, finds its own point, or one as near."""
        own = self._gate.index.vectors(self._new.collection, [memory.embedding_id for memory in self._alive()])
        lost = 0
        for point, vector in own.items():
            hits = self._search(self._new, vector)
            lost += not any(hit.embedding_id == point for hit in hits) and not (hits and hits[0].score >= SAME)
        return [Check(name="probes", passed=bool(own) and lost == 0, figure=lost, bound=0, note=f"of {len(own)}")]

    def _overlap(self) -> list[Check]:
        """Stored texts, searched for in both generations by the vectors each has of them."""
        points = [memory.embedding_id for memory in self._alive()]
        ours = self._gate.index.vectors(self._new.collection, points)
        theirs = self._gate.index.vectors(self._live.collection, points)
        both = [(ours[point], theirs[point]) for point in points if point in ours and point in theirs]
        return [self._shared("overlap", both)]

    def _queries(self) -> list[Check]:
        """The same of recent real queries, where some are known: each embedded in both spaces."""
        texts = list(self._gate.queries(self._new.tenant))[: self._gate.bounds.probes]
        if not texts:
            return []
        both = [(self._asked(self._new, text), self._asked(self._live, text)) for text in texts]
        return [self._shared("queries", both)]

    def _latency(self) -> list[Check]:
        """The median search beside the live generation's, measured in turn."""
        ours, theirs = (self._took[one.number] for one in (self._new, self._live))
        if not ours or not theirs:
            return [Check(name="latency", passed=False, note="nothing was searched")]
        mine, other = (1000 * statistics.median(took) for took in (ours, theirs))
        bounds = self._gate.bounds
        times = mine / other if other else math.inf
        passed = times <= bounds.slower or mine <= bounds.fast_enough
        note = f"{mine:.1f} ms, live {other:.1f} ms"
        return [Check(name="latency", passed=passed, figure=round(times, 2), bound=bounds.slower, note=note)]

    def _shared(self, name: str, both: Sequence[tuple[Vector, Vector]]) -> Check:
        shares = []
        for mine, other in both:
            ours, theirs = (
                {hit.embedding_id for hit in self._search(generation, vector)}
                for generation, vector in ((self._new, mine), (self._live, other))
            )
            if theirs:
                shares.append(len(ours & theirs) / len(theirs))
        mean = statistics.fmean(shares) if shares else 0.0
        bound = self._gate.bounds.overlap
        passed = bool(shares) and mean >= bound
        return Check(name=name, passed=passed, figure=round(mean, 3), bound=bound, note=f"of {len(shares)}")

    def _alive(self) -> list[Memory]:
        """The memories to probe with: an expired one is found by nobody."""
        chosen = list(self._sample)[: self._gate.bounds.probes]
        with self._gate.database.tenant(self._new.tenant) as session:
            return list(memories.fetch(session, self._new.tenant, chosen).values())

    def _asked(self, generation: Generation, text: str) -> Vector:
        embedder = self._gate.embedder_of(generation.space)
        vector: Vector = checked(embedder, [generation.space.query_text(text)], "query").vectors[0]
        return vector

    def _search(self, generation: Generation, vector: Vector) -> Sequence[Hit]:
        selection = Selection(tenant=generation.tenant, filters=Filters(), alive_at=self._moment())
        started = self._gate.clock()
        hits = self._gate.index.search(generation.collection, vector, selection, TOP)
        self._took[generation.number].append(self._gate.clock() - started)
        return hits

    def _moment(self) -> datetime:
        with self._gate.database.tenant(self._new.tenant) as session:
            return memories.keys(session).moment


def _healthy(row: Vector, width: int) -> bool:
    return row.shape == (width,) and bool(np.isfinite(row).all()) and abs(float(np.linalg.norm(row)) - 1) <= LENGTH_OFF


def repair(index: VectorIndex, generation: Generation, found: Agreement) -> list[str]:
    """Remove what the record does not want; the ids of what it does want, to be enqueued.

    Guarded by the versions seen: what was written again meanwhile stays.
    """
    index.delete(generation.collection, found.orphans)
    return [*found.missing, *found.stale]
