"""What embedding would take, before anything is asked of a provider."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from core.errors import NotFound
from core.index.known import KnownVectors
from core.index.opening import Opening, as_they_are
from core.model.generation import Generation, GenerationState
from core.model.names import index_group
from core.model.space import EmbeddingSpace, text_hash
from core.model.tokens import estimated_tokens
from core.model.use import money_of
from core.ports import VectorIndex
from core.record import memories
from core.record.database import Database
from core.record.queries import query

PAGE = 1000
# Texts that are known as counted already. Beyond so many distinct ones a repeated text counts again.
REMEMBERED = 250_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What `records` need: `texts` distinct ones of about `tokens` to be embedded; `reusable` have a vector already.

    What is left over needs none (a deletion, say).
    """

    records: int = 0
    texts: int = 0
    tokens: int = 0
    reusable: int = 0

    def money(self, price: float | None) -> float | None:
        """What the tokens cost, at a price per million; None: the price is not known."""
        return money_of(self.tokens, price)


@dataclass(frozen=True, slots=True)
class TenantEstimate:
    """The estimate of what waits for one generation; `in_batch` entries are in batch jobs and not part of it."""

    tenant: str
    generation: int
    space: EmbeddingSpace
    in_batch: int
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Estimator:
    """Estimates against a record and its indexes. `known` are vectors kept elsewhere, `opened` opens what is sealed."""

    database: Database
    index: VectorIndex
    known: Sequence[KnownVectors] = ()
    opened: Opening = as_they_are

    def estimate(self, target: Generation | EmbeddingSpace, tenant: str, *, waiting_only: bool = False) -> Estimate:
        """What it takes to bring a tenant's records into a generation, or into a new one in a space.

        `waiting_only`: only what waits in the outbox of the generation. Nothing is changed or made; page by page,
        in bounded memory. Raises Transient when a store is out of reach.
        """
        generation = target if isinstance(target, Generation) else _imagined(target, tenant)
        seen: set[int] = set()
        records = texts_due = tokens = reusable = 0
        for ids in _pages(self.database, generation, waiting_only=waiting_only):
            with self.database.tenant(tenant) as session:
                hash_key = memories.keys(session).hash_key
                wanted, _ = memories.fetch_to_index(session, tenant, ids)
            whole = self.opened(wanted)[0]
            texts = {name: generation.space.document_text(one.title, one.content) for name, one in whole.items()}
            hashes = {name: text_hash(text, hash_key) for name, text in texts.items()}
            points = {name: whole[name].embedding_id for name in hashes} if isinstance(target, Generation) else {}
            there = self._there(generation, hashes, points)
            records += len(ids)
            reusable += len(there)
            for memory_id in hashes.keys() - there:
                mark = int(hashes[memory_id][:15], 16)
                if mark not in seen:
                    if len(seen) < REMEMBERED:
                        seen.add(mark)
                    texts_due += 1
                    tokens += estimated_tokens(texts[memory_id])
        return Estimate(records=records, texts=texts_due, tokens=tokens, reusable=reusable)

    def _there(self, generation: Generation, hashes: Mapping[str, str], points: Mapping[str, uuid.UUID]) -> set[str]:
        """Those whose text has a vector: in the point itself, in another one, or wherever one is kept.

        Without `points` there is no collection yet.
        """
        there: set[str] = set()
        collection = generation.collection
        found: set[str] = set()
        if points:
            try:
                stamps = self.index.stamps(collection, list(points.values()))
                for name, point in points.items():
                    stored = stamps.get(point)
                    if stored is not None and stored.text_hash == hashes[name]:
                        there.add(name)
                asked = sorted({hashes[name] for name in hashes.keys() - there})
                found.update(self.index.vectors_of_texts(collection, generation.tenant, asked))
            except NotFound:
                found.clear()  # nothing was brought there yet
        for source in self.known:
            if missing := sorted({hashes[name] for name in hashes.keys() - there} - found):
                found.update(source.vectors_of_texts(generation, missing))
        return there | {name for name, one in hashes.items() if one in found}


def _imagined(space: EmbeddingSpace, tenant: str) -> Generation:
    """A generation that was not registered; no collection has its number."""
    group, state = index_group(tenant), GenerationState.BUILDING
    return Generation(tenant=tenant, number=0, index_group=group, space=space, state=state)


def _pages(database: Database, generation: Generation, *, waiting_only: bool) -> Iterator[list[str]]:
    name = "estimate_waiting_page" if waiting_only else "estimate_records_page"
    after = ""
    while True:
        values = {"tenant": generation.tenant, "generation": generation.number, "after": after, "limit": PAGE}
        with database.tenant(generation.tenant) as session:
            ids = [row["id"] for row in session.execute(query(name), values).fetchall()]
        if not ids:
            return
        yield ids
        after = ids[-1]
