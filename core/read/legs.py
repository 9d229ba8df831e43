"""The two legs of a search. Each gives hits that meet the filters within its own top-k, and says how it fared."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from core.errors import EngineError, Misconfigured, NotFound, Refused
from core.index.recent import RecentVectors
from core.index.vectors import checked
from core.model.generation import Generation
from core.model.point import Vector
from core.model.query import Filters, Leg, Selection
from core.model.space import EmbeddingSpace, text_hash
from core.model.terms import terms_asked
from core.ports import Cache, Embedder, VectorIndex
from core.read.rates import Rates
from core.record import keywords
from core.record.database import Database
from core.record.keywords import Asked

QUERY_VECTOR_KEPT = timedelta(hours=1)
VECTOR, KEYWORD = "vector", "keyword"
NO_MODEL = "none"
ARCHIVED = "archive"
# The keyword leg's query is on its way within this, or the vector leg does not wait for it.
HEAD_START_SECONDS = 0.02
NOT_INDEXED = "nothing has been indexed yet"
NO_EMBEDDER = "no embedder is configured: this is a keyword search"


@dataclass(frozen=True, slots=True)
class LegHits:
    """What a leg found, best first, and whether there may be more.

    `gone`: there is no such collection. `asked`: the keyword leg's terms.
    """

    leg: Leg
    scores: dict[uuid.UUID, float] = field(default_factory=dict)
    more: bool = False
    gone: bool = False
    asked: Asked | None = None

    @property
    def ran(self) -> bool:
        """Whether the leg gave an answer at all."""
        return self.leg.problem is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What both legs are asked. `text` has been through the gate."""

    tenant: str
    text: str
    filters: Filters
    hash_key: bytes
    alive_at: datetime


class VectorLeg:
    """Nearest in meaning, in the space of the collection that is searched."""

    def __init__(
        self,
        index: VectorIndex,
        cache: Cache,
        embedder_of: Callable[[EmbeddingSpace], Embedder],
        rates: Rates,
        recent: RecentVectors | None = None,
    ) -> None:
        self._index = index
        self._cache = cache
        self._embedder_of = embedder_of
        self._rates = rates
        self._recent = recent

    def scores(
        self, question: Question, generation: Generation, limit: int, ready: threading.Event
    ) -> dict[uuid.UUID, float]:
        """Cosines of the `limit` nearest points, once it is `ready`, or a moment later.

        Raises NotFound for a collection that is gone, and as its parts do.
        """
        vector = self._query_vector(generation.space, question)
        ready.wait(HEAD_START_SECONDS)
        selection = Selection(tenant=question.tenant, filters=question.filters, alive_at=question.alive_at)
        hits = self._index.search(generation.collection, vector, selection, limit)
        return {hit.embedding_id: hit.score for hit in hits}

    def vectors(self, generation: Generation, points: list[uuid.UUID]) -> dict[uuid.UUID, Vector]:
        """Stored vectors of points."""
        return self._index.vectors(generation.collection, points)

    def _query_vector(self, space: EmbeddingSpace, question: Question) -> Vector:
        """The query's vector: this process's, the cache's, or a new one, which both then have."""
        prepared = space.query_text(question.text)
        hashed = text_hash(prepared, question.hash_key)
        vector = self._kept(space, question.tenant, hashed)
        self._rates.count("query vectors", hit=vector is not None)
        if vector is None:
            vector = checked(self._embedder_of(space), [prepared], "query").vectors[0]
            self._cache.put(_cache_key(space, hashed), vector.astype("<f4").tobytes(), QUERY_VECTOR_KEPT)
            self._keep(space, question.tenant, hashed, vector)
        return vector

    def _kept(self, space: EmbeddingSpace, tenant: str, hashed: str) -> Vector | None:
        if self._recent is not None and (found := self._recent.found("query", tenant, space, [hashed])):
            return found[hashed]
        cached = self._cache.get(_cache_key(space, hashed))
        if cached is None or len(cached) != 4 * space.dimensions:
            return None
        vector: Vector = np.frombuffer(cached, dtype="<f4").astype(np.float32)
        self._keep(space, tenant, hashed, vector)
        return vector

    def _keep(self, space: EmbeddingSpace, tenant: str, hashed: str, vector: Vector) -> None:
        if self._recent is not None:
            self._recent.keep("query", tenant, space, {hashed: vector})


def _cache_key(space: EmbeddingSpace, hashed: str) -> str:
    return f"query:{space.fingerprint}:{hashed}"


class KeywordLeg:
    """Best by their words, near BM25, in the record itself."""

    def __init__(self, database: Database, frequencies: keywords.Frequencies) -> None:
        self._database = database
        self._frequencies = frequencies

    def scores(
        self, question: Question, limit: int, begins: Callable[[], None]
    ) -> tuple[Asked, dict[uuid.UUID, float]]:
        """BM25 of the `limit` best memories; `begins` is called when the database is at it."""
        terms = terms_asked(question.text)
        with self._database.tenant(question.tenant) as session:
            asked = self._frequencies.weighted(session, question.tenant, terms)
            filters = question.filters
            return asked, keywords.search_terms(session, question.tenant, asked, filters, limit, begins)


class Legs:
    """Runs both legs side by side under one deadline. Thread-safe; close it once.

    Whatever befalls the vector leg is told in its hits. The keyword leg is the record's: what it raises is
    raised, for without PostgreSQL there is no answer.
    """

    def __init__(
        self, vector: VectorLeg, keyword: KeywordLeg, deadline: timedelta, threads: int, clock: Callable[[], float]
    ) -> None:
        self.vector = vector
        self.keyword = keyword
        self._deadline = deadline.total_seconds()
        self._clock = clock
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def run(self, question: Question, generation: Generation | None, limits: dict[str, int]) -> dict[str, LegHits]:
        """What each leg named in `limits` finds, at most so many hits."""
        until = self._clock() + self._deadline
        pool = self._opened()
        jobs: dict[str, Future[LegHits]] = {}
        # An index in this process holds the interpreter while it searches: the database is given its work first.
        at_it = threading.Event()
        if KEYWORD in limits:
            jobs[KEYWORD] = pool.submit(self._keyword, question, limits[KEYWORD], at_it)
        else:
            at_it.set()
        if VECTOR in limits and generation is not None:
            jobs[VECTOR] = pool.submit(self._vector, question, generation, limits[VECTOR], at_it)
        return {name: self._ended(name, jobs[name], until) for name in limits if name in jobs}

    def close(self) -> None:
        """End the threads; calls under way end by their own time limits."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown(wait=True, cancel_futures=True)
                self._pool = None

    def _opened(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="search")
            return self._pool

    def _ended(self, name: str, job: Future[LegHits], until: float) -> LegHits:
        left = until - self._clock()
        try:
            return job.result(timeout=max(0.0, left))
        except Late:
            job.cancel()
            problem = f"the {name} leg was not done within {self._deadline:g} s"
            return LegHits(Leg(name=name, milliseconds=self._deadline * 1000, problem=problem))

    def _vector(self, question: Question, generation: Generation, limit: int, ready: threading.Event) -> LegHits:
        started = self._clock()
        problem: str | None = None
        gone = False
        scores: dict[uuid.UUID, float] = {}
        if generation.space.provider == NO_MODEL:
            problem = NO_EMBEDDER
        elif question.filters.tier == ARCHIVED:
            problem = "what is archived has no vectors"
        else:
            try:
                scores = self.vector.scores(question, generation, limit, ready)
            except NotFound:
                problem, gone = NOT_INDEXED, True
            except EngineError as error:
                problem = _told(error)
        leg = Leg(name=VECTOR, milliseconds=self._since(started), hits=len(scores), problem=problem)
        return LegHits(leg, scores, more=len(scores) >= limit, gone=gone)

    def _keyword(self, question: Question, limit: int, at_it: threading.Event) -> LegHits:
        started = self._clock()
        try:
            asked, scores = self.keyword.scores(question, limit, at_it.set)
        finally:
            at_it.set()
        leg = Leg(name=KEYWORD, milliseconds=self._since(started), hits=len(scores))
        return LegHits(leg, scores, more=len(scores) >= limit, asked=asked)

    def _since(self, started: float) -> float:
        return round((self._clock() - started) * 1000, 2)


def _told(error: EngineError) -> str:
    """Why a leg did not run, in words. What the caller has to change is not told but raised."""
    if isinstance(error, Refused):
        raise error
    prefix = "the embedder cannot be asked: " if isinstance(error, Misconfigured) else ""
    return f"{prefix}{error.message}"
