"""The search: both legs side by side, merged, aged, seen in their conversations, made diverse, and read anew.

The steps are DESIGN.md section 9. Whatever an index or a cache says, the record has the last word: what is
answered was alive and met the filters when it was read, which is the last step.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from core.errors import EngineError, Refused
from core.model.generation import Generation
from core.model.point import Vector
from core.model.query import Answer, Filters, Found, Parts
from core.model.ranking import Ranking
from core.read.answers import Answers, KeptAnswer, key_of
from core.read.conversation import Ranked, with_conversation
from core.read.decay import decayed
from core.read.diversity import diverse
from core.read.fusion import Pool, merged, stands
from core.read.legs import KEYWORD, VECTOR, LegHits, Legs, Question
from core.read.passages import passages_of
from core.read.rehydrate import Rehydrate
from core.read.related import with_graph
from core.read.standing import Standing, Standings
from core.record import memories
from core.record.candidates import Candidate, candidates, change_mark
from core.record.database import Database, Session

# A leg whose hits are mostly gone is asked again for twice as many, until enough are alive: at most this many.
POOL = 2048
TOO_FAR_BEHIND = f"the index is far behind the record: of its first {POOL} hits most are gone; run the embed chore"
MOST_AROUND = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is searched for. `text` has been through the gate; `around`: passages with so many on each side."""

    tenant: str
    text: str
    limit: int
    filters: Filters
    ranking: Ranking
    around: int = 0
    min_score: float | None = None


class Search:
    """Searches memories of any tenant. Thread-safe. `clock` tells time that passes."""

    def __init__(
        self,
        database: Database,
        legs: Legs,
        standings: Standings,
        answers: Answers,
        clock: Callable[[], float],
        rehydrate: Rehydrate | None = None,
    ) -> None:
        self._rehydrate = rehydrate
        self._database = database
        self._legs = legs
        self._standings = standings
        self._answers = answers
        self._clock = clock

    def search(self, wanted: Wanted) -> Answer:
        """The best memories for a text, none of them deleted, expired or another tenant's.

        Raises Refused for a limit or a passage that makes no sense, Transient when PostgreSQL is out of reach;
        what else is out of reach is said in the answer.
        """
        if wanted.limit < 1:
            raise Refused("ask for at least one answer", where="limit")
        if not 0 <= wanted.around <= MOST_AROUND:
            raise Refused(f"around is within 0..{MOST_AROUND}", where="around")
        standing = self._standings.of(wanted.tenant)
        if standing.generation is None:
            return Answer(found=(), generation=0)
        key, change = self._key(wanted, standing)
        answer = self._kept(wanted, standing, key, change) if key else None
        if answer is None:
            answer = self._searched(wanted, standing)
            if key and answer.degraded is None:
                points = tuple(one.memory.embedding_id for one in answer.found)
                scores = tuple(one.score for one in answer.found)
                self._answers.put(key, KeptAnswer(change, points, scores, tuple(one.parts for one in answer.found)))
        return self._whole(self._with_passages(answer, wanted))

    def _key(self, wanted: Wanted, standing: Standing) -> tuple[str | None, int | None]:
        if not self._answers.on or standing.generation is None:
            return None, None
        asked = (wanted.limit, wanted.filters, wanted.ranking, wanted.min_score)
        with self._database.tenant(wanted.tenant) as session:
            change = change_mark(session, wanted.tenant).change
        return key_of(standing.generation, wanted.text, standing.hash_key, asked), change

    def _kept(self, wanted: Wanted, standing: Standing, key: str, change: int | None) -> Answer | None:
        kept = self._answers.get(key, change)
        if kept is None or standing.generation is None:
            return None
        scored = dict(zip(kept.points, zip(kept.scores, kept.parts, strict=True), strict=True))
        parts = {point: one for point, (_, one) in scored.items()}
        with self._database.tenant(wanted.tenant) as session:
            found = self._read(session, wanted, list(kept.points), parts)
        if len(found) < len(kept.points):
            return None
        found = [replace(one, score=scored[one.memory.embedding_id][0]) for one in found]
        return Answer(found=tuple(found), generation=standing.generation.number, cached=True)

    def _searched(self, wanted: Wanted, standing: Standing) -> Answer:
        limits = dict.fromkeys(_legs_of(wanted.ranking), wanted.ranking.candidates(wanted.limit))
        hits: dict[str, LegHits] = {}
        missing = dict(limits)
        while True:  # until enough hits of each leg are alive, or the leg is dry
            standing, new = self._asked(wanted, standing, missing)
            hits = {name: new.get(name) or hits[name] for name in limits}
            points = sorted({point for one in hits.values() for point in one.scores})
            with self._database.tenant(wanted.tenant) as session:
                known = candidates(session, wanted.tenant, points, wanted.filters)
                short = [
                    name
                    for name, one in hits.items()
                    if one.more and len(one.scores.keys() & known.keys()) < min(wanted.limit, limits[name])
                ]
                missing = {name: min(2 * limits[name], POOL) for name in short if limits[name] < POOL}
                if not missing:
                    ranked = self._ranked(session, wanted, hits, known, standing)
                    order = _order(ranked, wanted)
                    # Several statements, each of which sees the record as it is then; none waits for another store.
                    found = None if _diversifies(wanted, hits) else self._read(session, wanted, order, ranked.parts)
            if not missing:
                break
            limits |= missing
        assert standing.generation is not None  # noqa: S101  it was there when the search began
        undiverse: str | None = None
        if found is None:
            order, undiverse = self._diverse(wanted, standing.generation, order, ranked)
            with self._database.tenant(wanted.tenant) as session:
                found = self._read(session, wanted, order, ranked.parts)
        problems = [one.leg.problem for one in hits.values()] + [TOO_FAR_BEHIND if short else None, undiverse]
        return Answer(
            found=tuple(found),
            generation=standing.generation.number,
            degraded="; ".join(filter(None, problems)) or None,
            legs=tuple(one.leg for one in hits.values()),
        )

    def _asked(self, wanted: Wanted, standing: Standing, limits: dict[str, int]) -> tuple[Standing, dict[str, LegHits]]:
        """The hits of these legs. A collection that is gone was dropped after a swap: the record is asked once more."""
        new = self._legs.run(self._question(wanted, standing), standing.generation, limits)
        if VECTOR in new and new[VECTOR].gone:
            fresh = self._standings.of(wanted.tenant, fresh=True)
            if fresh.generation is not None:
                standing = fresh
                again = {VECTOR: limits[VECTOR]}
                new |= self._legs.run(self._question(wanted, standing), standing.generation, again)
        return standing, new

    def _question(self, wanted: Wanted, standing: Standing) -> Question:
        return Question(
            tenant=wanted.tenant,
            text=wanted.text,
            filters=wanted.filters,
            hash_key=standing.hash_key,
            alive_at=standing.now(self._clock()),
        )

    def _ranked(
        self,
        session: Session,
        wanted: Wanted,
        hits: dict[str, LegHits],
        known: dict[uuid.UUID, Candidate],
        standing: Standing,
    ) -> Ranked:
        scores = {
            name: {point: score for point, score in one.scores.items() if point in known} if one.ran else None
            for name, one in hits.items()
        }
        ranking, now = wanted.ranking, standing.now(self._clock())
        parts = merged(Pool(scores.get(VECTOR), scores.get(KEYWORD)), ranking)
        if ranking.decay_half_life is not None:
            parts = {point: replace(one, decay=decayed(known[point], ranking, now)) for point, one in parts.items()}
        ranked = Ranked({point: known[point] for point in parts}, parts, wanted.limit)
        if ranking.looks_around and parts:
            asked = hits[KEYWORD].asked if KEYWORD in hits else None
            ranked = with_conversation(session, wanted.tenant, ranked, asked, wanted.filters, ranking, wanted.text)
        if ranking.graph > 0 and parts:
            ranked = with_graph(session, wanted.tenant, ranked, wanted.filters, ranking)
        return ranked

    def _diverse(
        self,
        wanted: Wanted,
        generation: Generation,
        order: list[uuid.UUID],
        ranked: Ranked,
    ) -> tuple[list[uuid.UUID], str | None]:
        """The order with what repeats a better one moved down, and why that could not be done."""
        head = order[: wanted.ranking.candidates(wanted.limit)]
        try:
            vectors = self._legs.vector.vectors(generation, head)
        except EngineError as problem:
            return order, f"answers may repeat each other: {problem.message}"
        known: list[Vector | None] = [vectors.get(point) for point in head]
        chosen = diverse([ranked.parts[point].total for point in head], known, wanted.ranking.mmr, len(head))
        return [head[index] for index in chosen] + order[len(head) :], None

    def _read(
        self, session: Session, wanted: Wanted, order: Sequence[uuid.UUID], parts: Mapping[uuid.UUID, Parts]
    ) -> list[Found]:
        """The first `limit` records of an order that are alive and meet the filters now."""
        found: list[Found] = []
        for start in range(0, len(order), wanted.limit):
            piece = order[start : start + wanted.limit]
            records = memories.fetch_points(session, wanted.tenant, piece)
            found += [
                Found(memory=records[point], score=parts[point].total, parts=parts[point])
                for point in piece
                if point in records and wanted.filters.meets(records[point])
            ]
            if len(found) >= wanted.limit:
                break
        return found[: wanted.limit]

    def _whole(self, answer: Answer) -> Answer:
        """The answer with whole memories, in the clear; which cannot be had like that is said, or left out."""
        memories_of = [one.memory for one in answer.found]
        memories_of += [memory for passage in answer.passages for memory in passage.memories]
        if self._rehydrate is None or not memories_of:
            return answer
        whole, unread = self._rehydrate.hits({memory.id: memory for memory in memories_of})
        passages = [
            replace(one, memories=tuple(whole[memory.id] for memory in one.memories if memory.id in whole))
            for one in answer.passages
            if one.hits & whole.keys()
        ]
        return replace(
            answer,
            found=tuple(replace(one, memory=whole[one.memory.id]) for one in answer.found if one.memory.id in whole),
            passages=tuple(passages),
            degraded="; ".join(filter(None, (answer.degraded, unread))) or None,
        )

    def _with_passages(self, answer: Answer, wanted: Wanted) -> Answer:
        if wanted.around < 1 or not answer.found:
            return answer
        with self._database.tenant(wanted.tenant) as session:
            passages = passages_of(session, wanted.tenant, answer.found, wanted.around, wanted.filters)
        return replace(answer, passages=passages)


def _legs_of(ranking: Ranking) -> list[str]:
    """The legs that weigh anything: one that does not is not asked."""
    return [name for name, weight in ((VECTOR, ranking.vector), (KEYWORD, ranking.keyword)) if weight > 0]


def _diversifies(wanted: Wanted, hits: Mapping[str, LegHits]) -> bool:
    return wanted.ranking.mmr < 1 and VECTOR in hits and hits[VECTOR].ran


def _order(ranked: Ranked, wanted: Wanted) -> list[uuid.UUID]:
    """What is good enough, the better first, then the newer."""
    best = max((parts.bm25 or 0.0 for parts in ranked.parts.values()), default=0.0)
    least = wanted.min_score
    standing = [
        (point, parts.total)
        for point, parts in ranked.parts.items()
        if stands(parts, best, wanted.ranking) and (least is None or parts.total >= least)
    ]

    def key(one: tuple[uuid.UUID, float]) -> tuple[float, float, str]:
        known = ranked.known[one[0]]
        return -one[1], -known.created_at.timestamp(), known.id

    return [point for point, _ in sorted(standing, key=key)]
