"""The way out: get, list, count and search. Whatever an index or cache says, PostgreSQL has the last word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from core.errors import NotFound, Refused
from core.index.recent import RecentVectors
from core.model.memory import Memory
from core.model.query import Answer, Filters
from core.model.ranking import CONVERSATIONS, Ranking
from core.model.space import EmbeddingSpace
from core.ports import Cache, Embedder, VectorIndex
from core.read.answers import Answers
from core.read.legs import KeywordLeg, Legs, VectorLeg
from core.read.rates import Rates
from core.read.recent import RecentQueries
from core.read.rehydrate import Rehydrate
from core.read.search import Search, Wanted
from core.read.standing import Standings
from core.record import memories
from core.record.database import Database
from core.record.keywords import Frequencies
from core.record.memories import Place, Position

DEADLINE = timedelta(seconds=10)
THREADS = 8


class Reader:
    """Reads memories of any tenant. Thread-safe; close it once. `clock` tells time that passes.

    `ranking` is how a search ranks unless it says otherwise; both legs have `deadline` together; answers are
    kept for `keep_answers`, what was asked for `keep_queries`; vectors of queries in `recent_vectors` too.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        database: Database,
        index: VectorIndex,
        cache: Cache,
        embedder_of: Callable[[EmbeddingSpace], Embedder],
        clock: Callable[[], float],
        ranking: Ranking = CONVERSATIONS,
        deadline: timedelta = DEADLINE,
        threads: int = THREADS,
        keep_answers: timedelta = timedelta(0),
        rehydrate: Rehydrate | None = None,
        recent_vectors: RecentVectors | None = None,
        keep_queries: timedelta = timedelta(0),
    ) -> None:
        self._rehydrate = rehydrate
        self._database = database
        self._ranking = ranking
        self.rates = Rates(cache)
        self.recent = RecentQueries(cache, keep_queries)
        vector = VectorLeg(index, cache, embedder_of, self.rates, recent_vectors)
        self._legs = Legs(vector, KeywordLeg(database, Frequencies()), deadline, threads, clock)
        answers = Answers(cache, keep_answers, self.rates)
        self._search = Search(database, self._legs, Standings(database, clock), answers, clock, rehydrate)

    def get(self, tenant: str, memory_id: str) -> Memory:
        """One memory by id. Raises NotFound when it is deleted, expired or never was."""
        found = self.get_many(tenant, [memory_id])
        if memory_id not in found:
            raise NotFound("there is no such memory")
        return found[memory_id]

    def get_many(self, tenant: str, memory_ids: Sequence[str]) -> dict[str, Memory]:
        """The live memories among some ids, by id, whole. Raises as `Rehydrate.all` does."""
        with self._database.tenant(tenant) as session:
            found = memories.fetch(session, tenant, memory_ids)
        return found if self._rehydrate is None else self._rehydrate.all(found)

    def page(self, tenant: str, place: Place, limit: int, after: Position | None = None) -> list[Memory]:
        """Up to `limit` memories of a place, newest first, behind `after` (the last row of the page before).

        Of archived ones the beginning of the content, with `stored` set.
        """
        if limit < 1:
            raise Refused("a page holds at least one memory", where="limit")
        with self._database.tenant(tenant) as session:
            found = memories.page(session, tenant, place, after, limit)
        return found if self._rehydrate is None else self._rehydrate.listed(found)

    def count(self, tenant: str) -> int:
        """How many live memories a tenant has."""
        with self._database.tenant(tenant) as session:
            return memories.count(session, tenant)

    def search(
        self,
        tenant: str,
        text: str,
        limit: int,
        filters: Filters,
        ranking: Ranking | None = None,
        around: int = 0,
        min_score: float | None = None,
    ) -> Answer:
        """The memories that answer a text best. `text` has been through the text gate and is not blank.

        `around` asks for passages of so many memories on each side of a hit. See `Search.search`.
        """
        chosen = ranking or self._ranking
        self.recent.note(tenant, text)
        return self._search.search(
            Wanted(
                tenant=tenant,
                text=text,
                limit=limit,
                filters=filters,
                ranking=chosen,
                around=around,
                min_score=min_score,
            )
        )

    def close(self) -> None:
        """End the threads of the legs and tell the cache what was counted."""
        self._legs.close()
        self.rates.tell()
        self.recent.close()
