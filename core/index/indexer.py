"""The one piece of code that ever writes an index (DESIGN.md section 5).

For a claimed batch: read the records as they are now, sort them by what the index already holds, embed
what has a new text, check the lease, write under the version guard, then look at the record again: what
changed, was deleted or archived in between goes back to the outbox. A worker that slept anywhere in
here can only write older versions, which the guard refuses, or leave a point the second look mends.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta

from core.errors import NotFound
from core.index.claimed import Batch, Outcome
from core.index.known import KnownVectors
from core.index.opening import Opening, as_they_are
from core.index.packing import LearnedLimits
from core.index.places import Places
from core.index.recent import RecentVectors
from core.index.texts_under_way import TextsUnderWay
from core.index.throttled import in_turn
from core.index.vectors import embed_all
from core.model.batch import Wanted
from core.model.memory import Memory, embedding_id
from core.model.outbox import Claim, Lane
from core.model.point import Point, Stamp, same_fields
from core.model.space import EmbeddingSpace
from core.model.tokens import estimated_tokens
from core.model.use import Use
from core.model.version import CEILING
from core.ports import Embedder, VectorIndex
from core.record import memories
from core.record.batch_jobs import batch_vectors
from core.record.database import Database, Session
from core.record.outbox import Outbox, enqueue
from core.record.uses import add_use

# An entry claimed this often without any end was there each time a worker died: it is the likely cause.
MAX_ATTEMPTS = 5
# How long a batch waits for another that embeds the same text, in seconds; its lease is asked for after that.
PATIENCE = 30.0


class Indexer:
    """Brings claimed entries into their generation's collection. Thread-safe; holds no state of a batch.

    Vectors of `known` sources were paid for before, and count as reused; those that came by batch jobs were
    embedded for just these entries.
    """

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        index: VectorIndex,
        embedder_of: Callable[[EmbeddingSpace], Embedder],
        known: Sequence[KnownVectors] = (),
        recent: RecentVectors | None = None,
        opened: Opening = as_they_are,
    ) -> None:
        self._opened = opened
        self._database = database
        self._outbox = outbox
        self._index = index
        self._embedder_of = embedder_of
        self._recent = recent
        self._known = known if recent is None else (recent, *known)
        self._places = Places(index)
        self._under_way = TextsUnderWay(PATIENCE)
        self._learned = LearnedLimits()

    def bring(self, claim: Claim, *, defer: bool = False) -> Outcome:
        """Do all of a claim's index work, and end each of its entries: finished, released or set aside.

        What a provider's failure leaves over is in the outcome's `left`, with the reason; the rest is done
        all the same. With `defer` nothing is embedded: the texts that need it are in `deferred`. Raises Transient
        (a store is out of reach) and Misconfigured (no embedder for the generation's space, rights): then the
        claim is still leased. Either way the caller gives back.
        """
        batch = self._read(claim)
        batch.defer = defer
        self._set_aside_killers(batch)
        self._sort(batch)
        hashes = [batch.payloads[memory_id].stamp.text_hash for memory_id in batch.texts]
        with self._under_way.taken(batch.generation.collection, hashes):
            self._embed(batch)
            self._keep_ours(batch)
            self._write(batch)
        return self._look_again(batch)

    def _read(self, claim: Claim) -> Batch:
        ids = entries_of(claim)
        tenant = claim.generation.tenant
        with self._database.tenant(tenant) as session:
            hash_key = memories.keys(session).hash_key
            wanted, unwanted = memories.fetch_to_index(session, tenant, ids)
            batch = Batch(claim, wanted, unwanted)
            elsewhere = {name: one for name, one in wanted.items() if one.key_id is not None or one.stored is not None}
            batch.prepare({name: one for name, one in wanted.items() if name not in elsewhere}, hash_key)
            batch.came = batch_vectors(session, claim.generation, batch.hashes())
        if elsewhere:
            self._open(batch, elsewhere, hash_key)
        for memory_id in set(ids) - batch.wanted.keys() - unwanted.keys() - batch.outcome.set_aside.keys():
            # Purged: no version is left to compare with. Should the id be written again meanwhile, the
            # second look finds it and brings it back.
            batch.unwanted[memory_id] = CEILING - 1
        return batch

    def _open(self, batch: Batch, elsewhere: dict[str, Memory], hash_key: bytes) -> None:
        """What is sealed, or lies in an object, made whole: other stores are asked, so that no transaction is open."""
        whole, closed = self._opened(elsewhere)
        batch.wanted.update(whole)
        for memory_id, reason in closed.items():
            self._set_aside(batch, memory_id, reason)
            del batch.wanted[memory_id]
        batch.prepare(whole, hash_key)
        with self._database.tenant(batch.generation.tenant) as session:
            batch.came = batch_vectors(session, batch.generation, batch.hashes())

    def _set_aside_killers(self, batch: Batch) -> None:
        killers = {entry.memory_id for entry in batch.claim.entries if entry.attempts > MAX_ATTEMPTS}
        for memory_id in killers:
            self._set_aside(batch, memory_id, f"claimed {MAX_ATTEMPTS} times, and each time the worker died")
        batch.drop(killers)

    def _sort(self, batch: Batch) -> None:
        """Take out what the index holds already, and note what needs a new payload only."""
        stamps = self._stamps(batch)
        current = set()
        for memory_id, payload in batch.payloads.items():
            stored = stamps.get(payload.embedding_id)
            if memory_id not in batch.texts or stored is None:
                continue
            if stored.version > payload.stamp.version or stored == payload.stamp:
                current.add(memory_id)
            elif stored.text_hash == payload.stamp.text_hash:
                batch.same_text.add(memory_id)
        current -= self._kept_vectors(batch, current)
        batch.outcome.unchanged = len(current)
        for memory_id in current | batch.same_text:
            batch.texts.pop(memory_id, None)

    def _kept_vectors(self, batch: Batch, current: set[str]) -> set[str]:
        """Of points at the very version: those whose payload is not what it should be, to be written with their vector.

        Such an entry is rare: it was asked for again, by a second look or because somebody saw what is wrong.
        """
        if not current:
            return set()
        collection = batch.generation.collection
        points = {memory_id: batch.payloads[memory_id].embedding_id for memory_id in current}
        stored = self._index.payloads(collection, list(points.values()))
        wrong = {
            memory_id
            for memory_id, point in points.items()
            if point in stored
            and stored[point].get("version") == batch.payloads[memory_id].stamp.version
            and not same_fields(stored[point], batch.payloads[memory_id].fields)
        }
        if wrong:
            vectors = self._index.vectors(collection, [points[memory_id] for memory_id in wrong])
            batch.vectors.update({one: vectors[points[one]] for one in wrong if points[one] in vectors})
        kept = wrong & batch.vectors.keys()
        batch.reused.update(kept)
        return kept

    def _stamps(self, batch: Batch) -> dict[uuid.UUID, Stamp]:
        generation = batch.generation
        ids = [payload.embedding_id for payload in batch.payloads.values()]
        self._places.prepare(generation)
        try:
            return self._index.stamps(generation.collection, ids)
        except NotFound:
            self._places.forget(generation)
            self._places.prepare(generation)
            return self._index.stamps(generation.collection, ids)

    def _embed(self, batch: Batch) -> None:
        """Vectors for the `texts` that have none yet: those already paid for, then equal texts embedded once."""
        self._reuse(batch)
        missing = {memory_id: text for memory_id, text in batch.texts.items() if memory_id not in batch.vectors}
        if not missing:
            return
        if batch.defer:
            self._defer(batch, missing)
            return
        embedder = in_turn(self._embedder_of(batch.generation.space), batch.generation.tenant)
        hashes = {memory_id: batch.payloads[memory_id].stamp.text_hash for memory_id in missing}
        distinct = {hashes[memory_id]: text for memory_id, text in missing.items()}
        embedded = embed_all(embedder, distinct, self._learned)
        batch.outcome.requests += embedded.requests
        batch.outcome.texts += len(embedded.vectors)
        batch.outcome.tokens += embedded.tokens
        if self._recent is not None:  # before anything is written: should that fail, they are not paid for again
            generation = batch.generation
            self._recent.keep("document", generation.tenant, generation.space, embedded.vectors)
        if embedded.problem is not None:
            left = {memory_id for memory_id, key in hashes.items() if key not in embedded.vectors | embedded.refused}
            batch.outcome.problem = embedded.problem
            batch.outcome.left += sorted(left)
            batch.drop(left)
        refused = {memory_id for memory_id, key in hashes.items() if key in embedded.refused}
        for memory_id in refused:
            self._set_aside(batch, memory_id, embedded.refused[hashes[memory_id]])
        batch.drop(refused)
        batch.vectors.update(
            {memory_id: embedded.vectors[key] for memory_id, key in hashes.items() if key in embedded.vectors}
        )

    def _defer(self, batch: Batch, missing: dict[str, str]) -> None:
        """Leave these to somebody else, equal texts as one."""
        texts: dict[str, str] = {}
        versions: dict[str, dict[str, int]] = {}
        for memory_id, text in missing.items():
            stamp = batch.payloads[memory_id].stamp
            texts[stamp.text_hash] = text
            versions.setdefault(stamp.text_hash, {})[memory_id] = stamp.version
        batch.outcome.deferred += [
            Wanted(text_hash=text_hash, text=text, versions=versions[text_hash]) for text_hash, text in texts.items()
        ]
        batch.drop(set(missing))

    def _reuse(self, batch: Batch) -> None:
        """Take what came by batch jobs, then what was paid for before: of the same texts in the collection, or kept."""
        for memory_id in batch.texts:
            if (came := batch.came.get(batch.payloads[memory_id].stamp.text_hash)) is not None:
                batch.vectors[memory_id] = came
        hashes = {
            memory_id: batch.payloads[memory_id].stamp.text_hash
            for memory_id in batch.texts
            if memory_id not in batch.vectors
        }
        if not hashes:
            return
        generation = batch.generation
        known = self._index.vectors_of_texts(generation.collection, generation.tenant, sorted(set(hashes.values())))
        for source in self._known:
            if missing := sorted(set(hashes.values()) - known.keys()):
                known.update(source.vectors_of_texts(generation, missing))
        reused = {memory_id: known[one] for memory_id, one in hashes.items() if one in known}
        batch.spared += sum(estimated_tokens(batch.texts[memory_id]) for memory_id in reused)
        batch.vectors.update(reused)
        batch.reused.update(reused)

    def _set_aside(self, batch: Batch, memory_id: str, reason: str) -> None:
        self._outbox.set_aside(batch.claim, memory_id, reason)
        batch.outcome.set_aside[memory_id] = reason

    def _keep_ours(self, batch: Batch) -> None:
        """Before the first side effect: whatever is no longer leased to us is left to whoever holds it."""
        open_ids = [*batch.wanted, *batch.unwanted]
        with self._database.tenant(batch.generation.tenant) as session:
            ours = self._outbox.renew(session, batch.claim, open_ids)
            _note_use(session, batch)  # here, so that it is known even if a store fails from here on
        lost = set(open_ids) - ours
        batch.outcome.lost = len(lost)
        batch.drop(lost)

    def _write(self, batch: Batch) -> None:
        collection = batch.generation.collection
        if batch.same_text:
            self._write_payloads(batch)
        points = [Point(batch.payloads[memory_id], vector) for memory_id, vector in batch.vectors.items()]
        if points:
            self._index.upsert(collection, points)
        if batch.unwanted:
            tenant = batch.generation.tenant
            versions = {embedding_id(tenant, memory_id): version for memory_id, version in batch.unwanted.items()}
            self._index.delete(collection, versions)
        batch.outcome.reused = len(batch.reused & batch.vectors.keys())
        batch.outcome.embedded = len(points) - batch.outcome.reused
        cuts, wanted = batch.generation.space.cuts, batch.wanted
        batch.outcome.truncated = sum(cuts(wanted[one].title, wanted[one].content) for one in batch.vectors)
        batch.outcome.deleted = len(batch.unwanted)

    def _write_payloads(self, batch: Batch) -> None:
        """Payload-only writes; "nothing matched" looks like success, so what did not arrive is embedded after all."""
        collection = batch.generation.collection
        payloads = [batch.payloads[memory_id] for memory_id in batch.same_text]
        self._index.set_payload(collection, payloads)
        stamps = self._index.stamps(collection, [payload.embedding_id for payload in payloads])
        space = batch.generation.space
        missed = {
            memory_id
            for memory_id in batch.same_text
            if _behind(stamps.get(batch.payloads[memory_id].embedding_id), batch.payloads[memory_id].stamp)
        }
        batch.outcome.payload_only = len(batch.same_text) - len(missed)
        for memory_id in missed:
            memory = batch.wanted[memory_id]
            batch.texts[memory_id] = space.document_text(memory.title, memory.content)
        self._embed(batch)

    def _look_again(self, batch: Batch) -> Outcome:
        """Compare with the record once more, put back what changed meanwhile, finish the rest."""
        tenant = batch.generation.tenant
        written = [*batch.wanted, *batch.unwanted]
        with self._database.tenant(tenant) as session:
            now = memories.standings(session, tenant, written)
            moved = [memory_id for memory_id in written if not _as_written(batch, memory_id, now.get(memory_id))]
            if moved:
                enqueue(session, tenant, moved, Lane.ONLINE)
        with self._database.tenant(tenant) as session:
            finished = self._outbox.finish(session, batch.claim, written)
            _note_use(session, batch)
        left = [memory_id for memory_id in written if memory_id not in finished]
        if left:
            self._outbox.release(batch.claim, left, timedelta(0), failed=False, done=True)
        batch.outcome.requeued = len(left)
        return batch.outcome


def entries_of(claim: Claim) -> list[str]:
    """Ids of a claim's entries."""
    return [entry.memory_id for entry in claim.entries]


def _note_use(session: Session, batch: Batch) -> None:
    """What the batch took since this was last called."""
    outcome = batch.outcome
    use = Use(
        requests=outcome.requests,
        texts=outcome.texts,
        tokens=outcome.tokens,
        reused_texts=len(batch.reused),
        reused_tokens=batch.spared,
    )
    if not (new := use.minus(batch.noted)).is_empty:
        add_use(session, batch.generation.tenant, batch.generation.space, new)
    batch.noted = use


def _behind(stored: Stamp | None, wanted: Stamp) -> bool:
    return stored is None or stored.version < wanted.version


def _as_written(batch: Batch, memory_id: str, now: memories.Standing | None) -> bool:
    """Is the record still what the index was brought up to? A purged row is, if its point was deleted."""
    written = batch.wanted.get(memory_id)
    if written is None:
        return now is None or not now.indexed
    return now is not None and now.indexed and now.version == written.version
