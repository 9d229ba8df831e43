"""Batch jobs in the record: what is in them, which entries of the outbox are held for them, what came of them.

Whoever works on a job has a lease on it, and begins every transaction by looking whether it still has. Rows are
locked in one order everywhere: the job, its items, then the outbox.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from core.errors import LeaseLost
from core.model.batch import BatchJob, JobState, Wanted
from core.model.generation import Generation
from core.model.outbox import Claim, Entry
from core.model.point import Vector
from core.model.space import EmbeddingSpace
from core.model.use import Use
from core.record.database import Database, Row, Session
from core.record.queries import query
from core.record.uses import add_use

OPEN, LOOSE = "open", "loose"
JOB_LEASE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A job under a lease of ours."""

    tenant: str
    id: uuid.UUID
    owner: uuid.UUID
    deadline: datetime


@dataclass(frozen=True, slots=True)
class Put:
    """What was put in a job: the items that are new, and the memories that are held now (the others are not)."""

    items: frozenset[uuid.UUID]
    held: frozenset[str]


@dataclass(slots=True)
class Results:
    """Part of what came back, by item: vectors, reasons of refusal, and those to be sent again."""

    vectors: dict[uuid.UUID, Vector] = field(default_factory=dict)
    tokens: dict[uuid.UUID, int] = field(default_factory=dict)
    refused: dict[uuid.UUID, str] = field(default_factory=dict)
    again: set[uuid.UUID] = field(default_factory=set)

    def __contains__(self, item: uuid.UUID) -> bool:
        return item in self.vectors or item in self.refused or item in self.again


class BatchJobs:
    """The jobs of one database. Every method is one transaction.

    `lease` is how long claimed entries are kept from others, `job_lease` a job: longer than a request to the
    provider can take.
    """

    def __init__(self, database: Database, lease: timedelta, job_lease: timedelta = JOB_LEASE) -> None:
        self._database = database
        self._entry_lease = lease
        self._lease = job_lease

    def listed(
        self, tenants: Sequence[str] | None = None, *, open_only: bool = False, limit: int = 1000
    ) -> list[BatchJob]:
        """Jobs of all tenants or those named, newest first."""
        values = {"tenants": None if tenants is None else list(tenants), "open_only": open_only, "limit": limit}
        with self._database.across() as session:
            rows = session.execute(query("batch_job_list"), values).fetchall()
        return [_job_of(row) for row in rows]

    def open_tokens(self, space: EmbeddingSpace) -> int:
        """Tokens (estimated) in jobs of the space's model that have not ended, over all tenants."""
        with self._database.across() as session:
            values = {"provider": space.provider, "model": space.model}
            row = session.execute(query("batch_open_tokens"), values).fetchone()
        return 0 if row is None else int(row["tokens"])

    def claim(self, owner: uuid.UUID, generation: Generation, limit: int, *, fed: bool = False) -> Claim:
        """Entries of a generation that may go into a job, leased to `owner`; perhaps none.

        `fed`: those a reindex fed for batch jobs, and no others.
        """
        values = {
            "tenant": generation.tenant,
            "generation": generation.number,
            "owner": owner,
            "limit": limit,
            "lease": self._entry_lease,
        }
        with self._database.across() as session:
            rows = session.execute(query("batch_claim_fed" if fed else "batch_claim"), values).fetchall()
        return Claim(owner, generation, tuple(Entry(row["memory_id"], row["seq"], row["attempts"]) for row in rows))

    def begin(self, generation: Generation, job: uuid.UUID, owner: uuid.UUID, wait: timedelta) -> Held:
        """A new job, leased; its entries go the normal way once `wait` is over."""
        space = generation.space
        values = {
            "tenant": generation.tenant,
            "id": job,
            "generation": generation.number,
            "fingerprint": space.fingerprint,
            "provider": space.provider,
            "model": space.model,
            "wait": wait,
            "owner": owner,
            "lease": self._lease,
        }
        with self._database.tenant(generation.tenant) as session:
            row = session.execute(query("batch_job_add"), values).fetchone()
        assert row is not None  # noqa: S101  RETURNING of an insert
        return Held(tenant=generation.tenant, id=job, owner=owner, deadline=row["deadline"])

    def take(self, job: BatchJob, owner: uuid.UUID) -> tuple[Held, BatchJob] | None:
        """A lease on a job that has not ended, and how it stands now; None: ended, or somebody works on it."""
        values = {"tenant": job.tenant, "id": job.id, "owner": owner, "lease": self._lease}
        with self._database.tenant(job.tenant) as session:
            row = session.execute(query("batch_job_take"), values).fetchone()
        if row is None:
            return None
        return Held(tenant=job.tenant, id=job.id, owner=owner, deadline=row["deadline"]), _job_of(row)

    def free(self, held: Held) -> None:
        """Give the lease up."""
        with self._database.tenant(held.tenant) as session:
            session.execute(query("batch_job_free"), {"tenant": held.tenant, "id": held.id, "owner": held.owner})

    def keep(self, held: Held) -> JobState:
        """Renew the lease; how the job stands. Raises LeaseLost."""
        with self._database.tenant(held.tenant) as session:
            return self._keep(session, held)

    def put(self, held: Held, claim: Claim, wanted: Mapping[uuid.UUID, Wanted], tokens: Mapping[uuid.UUID, int]) -> Put:
        """Put texts in a job, each under the id of its item, and hold the entries that wait for them.

        A text that another job awaits gets no item here and is held for that one; what is known already is left.
        Raises LeaseLost.
        """
        tenant, space = held.tenant, claim.generation.space
        fingerprint = space.fingerprint
        with self._database.tenant(tenant) as session:
            if self._keep(session, held) is JobState.CANCELLING:
                raise LeaseLost("the batch job was cancelled")
            rows = _flat(wanted, tokens)
            values = {"tenant": tenant, "job": held.id, "fingerprint": fingerprint, **rows}
            added = session.execute(query("batch_items_add"), values).fetchall()
            item_of = {row["text_hash"]: row["id"] for row in added}
            asked = {"tenant": tenant, "fingerprint": fingerprint, "hashes": sorted(item_of)}
            known = {row["text_hash"] for row in session.execute(query("batch_known"), asked).fetchall()}
            waiting = {
                memory_id: item_of[one.text_hash]
                for one in wanted.values()
                if one.text_hash not in known
                for memory_id in one.versions
            }
            entries = {
                **_of(claim),
                "ids": list(waiting),
                "items": list(waiting.values()),
                "deadline": held.deadline,
            }
            found = session.execute(query("batch_hold"), entries).fetchall()
            ours = {item for item in item_of.values() if item in wanted}
            used = ours & {row["batch_item"] for row in found}
            if ours - used:
                session.execute(query("batch_items_drop"), {"tenant": tenant, "items": list(ours - used)})
            self._keep(session, held, inputs=len(used), tokens=sum(tokens[item] for item in used))
        return Put(frozenset(used), frozenset(row["memory_id"] for row in found))

    def note(self, held: Held, provider_job: str, *, polled: bool = False, done: int = 0) -> JobState:
        """Note what the provider said of a job; how it stands now. Raises LeaseLost."""
        values = {**_job(held), "provider_job": provider_job, "polled": polled, "done": done}
        with self._database.tenant(held.tenant) as session:
            row = session.execute(query("batch_job_note"), values).fetchone()
        if row is None:
            raise LeaseLost("another worker has taken the batch job over")
        return JobState(row["state"])

    def cancel(self, tenant: str, job: uuid.UUID) -> bool:
        """Free a job's entries at once, and have it cancelled. False: there is no such job, or it has ended."""
        with self._database.tenant(tenant) as session:
            if not session.execute(query("batch_job_cancelling"), {"tenant": tenant, "id": job}).fetchall():
                return False
            _ready(session, tenant, _settled(session, tenant, job, LOOSE, [OPEN]))
        return True

    def ingest(self, held: Held, space: EmbeddingSpace, results: Results) -> int:
        """Keep what came back and free its entries; of items that have their end already, nothing. Raises LeaseLost.

        How many vectors were kept now. Tokens are noted with them: each once.
        """
        tenant = held.tenant
        with self._database.tenant(tenant) as session:
            self._keep(session, held)
            values = {
                **_job(held),
                "items": list(results.vectors),
                "vectors": [vector.astype("<f4").tobytes() for vector in results.vectors.values()],
            }
            kept = session.execute(query("batch_items_keep"), values | {"job": held.id}).fetchall()
            refused = _settled(session, tenant, held.id, "refused", [OPEN, LOOSE], list(results.refused))
            again = _settled(session, tenant, held.id, "again", [OPEN, LOOSE], list(results.again))
            _ready(session, tenant, [row["id"] for row in kept])
            _ready(session, tenant, again, again=True)
            reasons = [results.refused[item] for item in refused]
            aside = {"tenant": tenant, "items": refused, "reasons": reasons}
            session.execute(query("batch_set_aside"), aside)
            if kept:
                tokens = sum(results.tokens.get(row["id"]) or int(row["tokens"]) for row in kept)
                add_use(session, tenant, space, Use(texts=len(kept), tokens=tokens, batch_tokens=tokens))
        return len(kept)

    def end(
        self, held: Held, space: EmbeddingSpace, state: JobState, note: str | None = None, *, unsent: bool = False
    ) -> None:
        """End a job: what still awaits a vector goes again. Raises LeaseLost.

        `unsent`: nothing of it was sent, which is no try.
        """
        tenant = held.tenant
        with self._database.tenant(tenant) as session:
            self._keep(session, held)
            _ready(
                session, tenant, _settled(session, tenant, held.id, "again", [OPEN, LOOSE]), again=True, unsent=unsent
            )
            session.execute(query("batch_job_end"), {**_job(held), "state": state.value, "note": note})
            if not unsent:
                add_use(session, tenant, space, Use(requests=1))

    def sweep(self, tenant: str, keep_vectors: timedelta, keep_jobs: timedelta, limit: int) -> int:
        """Drop up to `limit` items of ended jobs that nobody needs any more, and jobs that ended long ago."""
        with self._database.tenant(tenant) as session:
            values = {"tenant": tenant, "keep": keep_vectors, "limit": limit}
            dropped = session.execute(query("batch_items_sweep"), values).rowcount
            session.execute(query("batch_jobs_sweep"), {"tenant": tenant, "keep": keep_jobs})
        return dropped

    def _keep(self, session: Session, held: Held, *, inputs: int = 0, tokens: int = 0) -> JobState:
        values = {**_job(held), "lease": self._lease, "inputs": inputs, "tokens": tokens}
        row = session.execute(query("batch_job_keep"), values).fetchone()
        if row is None:
            raise LeaseLost("another worker has taken the batch job over")
        return JobState(row["state"])


class BatchVectors:
    """The vectors that came by batch jobs, for whoever brings their entries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def vectors_of_texts(self, generation: Generation, hashes: Sequence[str]) -> dict[str, Vector]:
        """Those of `hashes` that are kept, of the generation's tenant and in its space. Raises as the record does."""
        with self._database.tenant(generation.tenant) as session:
            return batch_vectors(session, generation, hashes)


def batch_vectors(session: Session, generation: Generation, hashes: Sequence[str]) -> dict[str, Vector]:
    """Vectors that came by batch jobs, by text hash: of the generation's tenant and in its space."""
    space = generation.space
    values = {"tenant": generation.tenant, "fingerprint": space.fingerprint, "hashes": list(hashes)}
    rows = session.execute(query("batch_vectors"), values).fetchall()
    found = {row["text_hash"]: np.frombuffer(row["vector"], dtype="<f4").astype(np.float32) for row in rows}
    return {text_hash: vector for text_hash, vector in found.items() if vector.shape == (space.dimensions,)}


def _job_of(row: Row) -> BatchJob:
    return BatchJob(**{**row, "state": JobState(row["state"])})


def _job(held: Held) -> dict[str, object]:
    return {"tenant": held.tenant, "id": held.id, "owner": held.owner}


def _of(claim: Claim) -> dict[str, object]:
    return {"tenant": claim.generation.tenant, "generation": claim.generation.number, "owner": claim.owner}


def _flat(wanted: Mapping[uuid.UUID, Wanted], tokens: Mapping[uuid.UUID, int]) -> dict[str, list[object]]:
    """Arrays in step, a row a memory."""
    rows = [
        (item, one.text_hash, tokens[item], memory_id, version)
        for item, one in wanted.items()
        for memory_id, version in one.versions.items()
    ]
    names = ("items", "hashes", "tokens", "ids", "versions")
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _settled(
    session: Session, tenant: str, job: uuid.UUID, state: str, before: list[str], items: list[uuid.UUID] | None = None
) -> list[uuid.UUID]:
    """Give items (None: all of the job) that await a vector another state; those that had awaited one."""
    if items is not None and not items:
        return []
    values = {"tenant": tenant, "job": job, "state": state, "before": before, "items": items}
    return [row["id"] for row in session.execute(query("batch_items_settle"), values).fetchall()]


def _ready(session: Session, tenant: str, items: list[uuid.UUID], *, again: bool = False, unsent: bool = False) -> None:
    if items:
        values = {"tenant": tenant, "items": items, "again": again, "unsent": int(unsent)}
        session.execute(query("batch_ready"), values)
