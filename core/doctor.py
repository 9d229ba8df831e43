"""Every store in turn: reachable, of which version, with which rights, and what to do about it if not.

A store that cannot be looked at ends its own turn only. What is tried is undone: a collection and an object
of names no tenant can have.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np

from core.assembly.models import SpaceModels
from core.assembly.stores import limits_of, locks_of, open_blobs, open_index, record_url, redis_server
from core.errors import EngineError, Misconfigured
from core.index.health import index_health
from core.index.vectors import checked
from core.model.finding import Finding, Verdict
from core.model.point import Payload, Point, Stamp
from core.model.query import Filters, Selection
from core.model.space import EmbeddingSpace
from core.ports import BlobStore, Embedder, VectorIndex
from core.record.checkup import examine_record, examine_spaces
from core.record.database import Database
from core.record.migrate import is_current
from core.settings import Settings

# `@` stands in no encoded name of a tenant.
PROBE = "@doctor"
LOOKED_AT = 200  # indexes: opening one takes a moment
SLOW_CACHE = timedelta(milliseconds=20)


def examine(settings: Settings) -> Iterator[Finding]:
    """Look every store over; findings come as they are made. Raises nothing but bugs."""
    yield from _settings(settings)
    turns: list[tuple[str, Callable[[Settings], Iterator[Finding]]]] = [
        ("record", _record),
        ("cache", _cache),
        ("index", _index),
        ("objects", _objects),
        ("embedding", _embedding),
        ("index", _points),
    ]
    for store, turn in turns:
        yield from _guarded(store, turn(settings))


def _guarded(store: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    try:
        yield from findings
    except EngineError as problem:
        wrong = isinstance(problem, Misconfigured)
        advice = "mend the setting or the right it names" if wrong else "start it, or mend its address or the network"
        yield Finding(store=store, check="reachable", verdict=Verdict.PROBLEM, detail=problem.message, advice=advice)


def _settings(settings: Settings) -> Iterator[Finding]:
    unwise = []
    if settings.statement_timeout >= settings.lease:
        unwise.append(("lease", "a statement may last longer than a lease", "raise lease above statement_timeout"))
    if settings.embed_workers * settings.embed_tasks + 2 > settings.connections:
        detail = "more batches at once than connections"
        unwise.append(("connections", detail, "raise connections, or lower embed_workers or embed_tasks"))
    if settings.s3_endpoint is not None and not (settings.objects_url or "").startswith("s3://"):
        unwise.append(("objects_url", "s3_endpoint is set and not used", "set objects_url to s3://bucket"))
    if settings.cache_timeout > timedelta(seconds=1):
        unwise.append(("cache_timeout", "a cache that hangs holds up each search", "lower it to some 250 ms"))
    for check, detail, advice in unwise:
        yield Finding(store="settings", check=check, verdict=Verdict.WARNING, detail=detail, advice=advice)
    if not unwise:
        yield Finding(store="settings", check="contradictions", verdict=Verdict.OK, detail="none")


def _record(settings: Settings) -> Iterator[Finding]:
    ours = settings.postgres_url is None
    yield from examine_record(record_url(settings), limits_of(settings), lambda: datetime.now(UTC), ours=ours)


def _cache(settings: Settings) -> Iterator[Finding]:
    if not settings.cache:
        yield _fine("cache", "use", "switched off")
        return
    server = redis_server(settings)
    if server is None:
        yield Finding(
            store="cache",
            check="reachable",
            verdict=Verdict.WARNING,
            detail="the embedded one does not start",
            advice="see the warning above; everything works without it, some things slower",
        )
        return
    with closing(server):
        state = server.describe()
        yield _fine("cache", "version", state.version)
        if not state.evicts:
            advice = "set maxmemory-policy to allkeys-lru"
            yield Finding(
                store="cache", check="eviction", verdict=Verdict.WARNING, detail="refuses when full", advice=advice
            )
        if state.keeps_on_disk:
            advice = "switch off save and appendonly: erased content must be in no file of a cache"
            yield Finding(store="cache", check="disk", verdict=Verdict.WARNING, detail="writes to disk", advice=advice)
        started = time.monotonic()
        ours = locks_of(server).take(PROBE, str(uuid.uuid4()), timedelta(milliseconds=1))
        lasted = timedelta(seconds=time.monotonic() - started)
        verdict = Verdict.PROBLEM if ours is None else Verdict.OK if lasted < SLOW_CACHE else Verdict.WARNING
        advices = {
            Verdict.PROBLEM: "allow SET, GET, DEL, PEXPIRE and EVAL to this user",
            Verdict.WARNING: "bring it nearer: each search asks it",
        }
        detail = f"a write took {lasted / timedelta(milliseconds=1):.1f} ms"
        yield Finding(store="cache", check="rights", verdict=verdict, detail=detail, advice=advices.get(verdict, ""))


def _index(settings: Settings) -> Iterator[Finding]:
    with closing(open_index(settings)) as index:
        yield _fine("index", "reachable", f"{len(index.collections())} collections")
        yield _index_works(index)


def _points(settings: Settings) -> Iterator[Finding]:
    """Do the indexes hold what the record says they should? A collection that vanished comes back empty."""
    if not is_current(record_url(settings), limits_of(settings)):
        return  # said by the turn of the record
    database = Database(record_url(settings), limits_of(settings))
    database.open()
    with closing(database), closing(open_index(settings)) as index:
        found = index_health(database, index, None, LOOKED_AT)
    unknown = sum(one.points is None for one in found)
    for one in found:
        if one.mostly_gone:
            yield Finding(
                store="index",
                check="points",
                verdict=Verdict.PROBLEM,
                detail=f"of {one.tenant} {one.points} of {one.due} are there: mostly gone",
                advice=f"memory recover --tenant {one.tenant}",
            )
    if unknown:
        detail = f"{unknown} of {len(found)} indexes could not be counted"
        yield Finding(store="index", check="points", verdict=Verdict.UNKNOWN, detail=detail, advice="run it again")
    elif not any(one.mostly_gone for one in found):
        yield _fine("index", "points", f"none of {len(found)} indexes looked at is mostly gone")


def _index_works(index: VectorIndex) -> Finding:
    """A collection is made, written, searched and dropped."""
    stamp, vector = Stamp(1, "probe"), np.ones(4, dtype=np.float32)
    fields = {"tenant": PROBE, "version": stamp.version, "text_hash": stamp.text_hash}
    probe = Payload(uuid.uuid4(), stamp, fields)
    anything = Selection(tenant=PROBE, filters=Filters(), alive_at=datetime.now(UTC))
    index.create(PROBE, 4)
    try:
        index.upsert(PROBE, [Point(probe, vector)])
        hits = index.search(PROBE, vector, anything, 100)
    finally:
        index.drop(PROBE)
    found = probe.embedding_id in [hit.embedding_id for hit in hits]
    return Finding(
        store="index",
        check="rights",
        verdict=Verdict.OK if found else Verdict.PROBLEM,
        detail="makes, writes, searches and drops a collection" if found else "does not find what was just written",
        advice="" if found else "is another program writing to it, or is it a stale replica?",
    )


def _objects(settings: Settings) -> Iterator[Finding]:
    with closing(open_blobs(settings)) as blobs:
        yield _objects_work(blobs)


def _objects_work(blobs: BlobStore) -> Finding:
    """An object is put, listed, read and removed."""
    key, data = f"{PROBE}/{uuid.uuid4()}", b"probe"
    blobs.put(key, data)
    try:
        complete = blobs.get(key) == data and [one.key for one in blobs.list(f"{PROBE}/") if one.key == key] == [key]
    finally:
        blobs.delete(key)
    gone = blobs.stat(key) is None
    return Finding(
        store="objects",
        check="rights",
        verdict=Verdict.OK if complete and gone else Verdict.PROBLEM,
        detail="puts, lists, reads and removes an object" if complete and gone else "does not keep to what was asked",
        advice="" if complete and gone else "does the store delay what it lists, or keep what is deleted?",
    )


def _embedding(settings: Settings) -> Iterator[Finding]:
    with closing(SpaceModels(settings, None)) as models:
        yield _model_works(models.default)
        database = Database(record_url(settings), limits_of(settings))
        database.open()
        with closing(database):
            if is_current(record_url(settings), limits_of(settings)):
                yield from examine_spaces(database, models.default.space, partial(_can_be_asked, models))
            else:
                detail = "the schema is not up to date"
                yield Finding(
                    store="embedding", check="space", verdict=Verdict.UNKNOWN, detail=detail, advice="run `memory init`"
                )


def _can_be_asked(models: SpaceModels, space: EmbeddingSpace) -> bool:
    try:
        models.of(space)
    except Misconfigured:
        return False
    return True


def _model_works(embedder: Embedder) -> Finding:
    started = time.monotonic()
    checked(embedder, ["probe"], "query")
    space, milliseconds = embedder.space, (time.monotonic() - started) * 1000
    detail = f"{space.provider} {space.model}, {space.dimensions} dimensions, {milliseconds:.0f} ms for the first text"
    return _fine("embedding", "model", detail)


def _fine(store: str, check: str, detail: str) -> Finding:
    return Finding(store=store, check=check, verdict=Verdict.OK, detail=detail)
