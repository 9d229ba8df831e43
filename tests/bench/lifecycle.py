"""Archive, restore and reap beside what they stand on: the same objects put by the bare client, and bare deletions.

python -m tests.bench.lifecycle --records 4000 --rows 100000
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import fsspec
import psycopg

from core.assembly import Engine, open_engine
from core.assembly.stores import prepare_record, stop_embedded
from core.batch import archive, reap
from core.batch.embed import Portion as EmbedPortion
from core.batch.embed import step as embed_step
from core.model.memory import Draft
from core.settings import Settings, load_settings
from tests.bench.dictionary import held_out
from tests.bench.limits import timed
from tests.bench.texts import texts
from tests.seaweed import S3Server, running_s3
from tests.servers import temporary_home

TENANT = "aged"
BUCKET = "bench"


def archived(engine: Engine, url: str, files: Any, root: str, records: int) -> dict[str, Any]:
    """Archive and restore, in records a second, beside puts and gets of the very same bytes by the bare client.

    Ours compresses, puts, reads back, compares and commits; the bare client puts over whatever is there.
    """
    aged(url)
    work = replace(engine.lifecycle.archive_work(), batch=1000)
    reports: list[archive.Report] = []

    def all_of_it() -> None:
        portion: archive.Portion | None = archive.Portion(tenant=TENANT)
        while portion is not None:
            reports.append(archive.step(work, portion))
            portion = reports[-1].next

    spent = timed(all_of_it)
    done = archive.total(TENANT, reports)
    if done.archived != records:
        raise SystemExit(f"{done.archived} of {records} were archived: {done.postponed} {done.failed}")
    keys = [info.key for info in engine._stores.blobs.list(f"{TENANT}/") if info.key.endswith(".json.zst")]
    objects = engine._stores.blobs.get_many(keys)
    put, get = bare(files, root, objects)
    back = timed(lambda: list(engine.lifecycle.restore_all(TENANT)))
    return {
        "records": records,
        "archive_per_s": round(records / spent),
        "bare_put_per_s": round(records / put),
        "bare_put_and_get_per_s": round(records / (put + get)),
        "restore_per_s": round(records / back),
        "bare_get_per_s": round(records / get),
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
    }


def bare(files: Any, root: str, objects: dict[str, bytes]) -> tuple[float, float]:
    """Seconds the client itself takes to put these objects somewhere else, and to get them."""
    prefix = f"{root}/{uuid.uuid4().hex}"
    named = {f"{prefix}/{number}": data for number, data in enumerate(objects.values())}
    files.makedirs(prefix, exist_ok=True)
    files.pipe({f"{prefix}/warm": b"x"})
    return timed(lambda: files.pipe(named)), timed(lambda: files.cat(list(named)))


def aged(url: str) -> None:
    """Everything rests long enough to be archived."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("UPDATE memory SET updated_at = now() - interval '400 days', accessed_at = NULL")


@contextmanager
def filled(settings: Settings, records: int, **more: Any) -> Iterator[tuple[Engine, str]]:
    """An engine that holds so many memories, all in the index."""
    url = prepare_record(settings)
    with open_engine(settings) as engine:
        drafts = [Draft(id=f"m{n}", content=text, **more) for n, text in enumerate(texts(records, seed()))]
        for _ in engine.write_many(TENANT, drafts):
            pass
        embed_step(engine.embed_work(), EmbedPortion(tenant=TENANT, records=records))
        yield engine, url


def seed() -> random.Random:
    """The same texts every time."""
    return random.Random(6)


def to_folder(settings: Settings, records: int) -> dict[str, Any]:
    """Archive to and restore from a local folder."""
    with filled(settings, records) as (engine, url):
        return archived(engine, url, fsspec.filesystem("file"), str(settings.home / "bare"), records)


def to_server(settings: Settings, server: S3Server, records: int) -> dict[str, Any]:
    """Archive to and restore from an S3 server."""
    with filled(settings, records) as (engine, url):
        return archived(engine, url, server.other_client(), BUCKET, records)


def reaped(settings: Settings, rows: int) -> dict[str, Any]:
    """What is at its end is deleted and purged, in rows a second; beside two bare statements over as many rows.

    Nothing is in an index or an archive: this is PostgreSQL's work. A memory is one row of its table and one of its
    terms, and a posting a term; rows count all three.
    """
    figures: dict[str, Any] = {"rows": rows}
    url = prepare_record(settings)
    with open_engine(settings) as engine, psycopg.connect(url, autocommit=True) as admin:
        drafts = (Draft(id=f"m{n}", content=text) for n, text in enumerate(texts(rows, seed())))
        for _ in engine.write_many(TENANT, drafts):
            pass
        admin.execute("DELETE FROM outbox")
        ended(admin)
        held = sum(count(admin, table) for table in ("memory", "keyword", "posting"))
        figures["expire_per_s"], figures["purge_per_s"] = phases(engine, rows)
        figures["memories_per_s"] = round(1 / (1 / figures["expire_per_s"] + 1 / figures["purge_per_s"]))
        figures["rows_per_s"] = round(figures["memories_per_s"] * held / rows)
        figures["bare_update_and_delete_per_s"] = round(rows / bare_deletion(admin, rows))
    return figures


def phases(engine: Engine, rows: int) -> tuple[int, int]:
    """Rows a second of the two phases by which a memory leaves."""
    work = replace(engine.lifecycle.reap_work(), batch=5000)
    work = replace(work, spans=replace(work.spans, purge_after=timedelta(0)))
    rates = []
    for phase in (reap.Phase.EXPIRE, reap.Phase.PURGE):
        done: list[reap.Report] = []

        def run(phase: reap.Phase = phase, done: list[reap.Report] = done) -> None:
            portion: reap.Portion | None = reap.Portion(tenant=TENANT, phase=phase)
            while portion is not None and portion.phase is phase:
                done.append(reap.step(work, portion))
                portion = done[-1].next

        spent = timed(run)
        gone = sum(one.expired if phase is reap.Phase.EXPIRE else one.purged for one in done)
        if gone != rows:
            raise SystemExit(f"{phase}: {gone} of {rows}")
        rates.append(round(rows / spent))
    return rates[0], rates[1]


def ended(admin: psycopg.Connection[Any]) -> None:
    """Every memory is at its end."""
    admin.execute("UPDATE memory SET expires_at = now() - interval '1 second'")


def count(admin: psycopg.Connection[Any], table: str) -> int:
    """How many rows a table has."""
    row = admin.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
    return 0 if row is None else int(row[0])


def bare_deletion(admin: psycopg.Connection[Any], rows: int) -> float:
    """Seconds of marking and deleting as many rows of a plain table, five thousand at a time."""
    admin.execute("CREATE TABLE bare_rows (id text PRIMARY KEY, content text, deleted_at timestamptz)")
    admin.execute("INSERT INTO bare_rows SELECT 'm' || n, repeat('x', 80) FROM generate_series(1, %s) n", (rows,))

    def run() -> None:
        for _ in range(rows // 5000 + 1):
            admin.execute(
                "UPDATE bare_rows SET deleted_at = now() WHERE id IN "
                "(SELECT id FROM bare_rows WHERE deleted_at IS NULL LIMIT 5000)"
            )
        for _ in range(rows // 5000 + 1):
            admin.execute(
                "DELETE FROM bare_rows WHERE id IN (SELECT id FROM bare_rows WHERE deleted_at IS NOT NULL LIMIT 5000)"
            )

    return timed(run)


def run(records: int, rows: int) -> dict[str, Any]:
    """All figures, each on a fresh home."""
    figures: dict[str, Any] = {"compression": held_out()}
    with on_home() as settings:
        figures["folder"] = to_folder(settings, records)
    with temporary_home() as home, running_s3(home) as server:
        server.other_client().mkdir(BUCKET)
        chosen = {"s3_endpoint": server.endpoint, "s3_region": "us-east-1", "s3_key_id": server.key_id}
        chosen |= {"objects_url": f"s3://{BUCKET}/ours", "s3_secret": server.secret}
        with on_home(**chosen) as settings:
            figures["s3"] = to_server(settings, server, records)
    with on_home() as settings:
        figures["reap"] = reaped(settings, rows)
    return figures | {"targets": {"reap rows_per_s": 20_000}}


@contextmanager
def on_home(**chosen: Any) -> Iterator[Settings]:
    """Settings of a home of its own, whose servers are ended with it."""
    with tempfile.TemporaryDirectory(prefix="memory-bench-") as home:
        settings = load_settings(home=Path(home) / "home", **chosen)
        try:
            yield settings
        finally:
            stop_embedded(settings)


def main() -> None:
    """Parse the sizes, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4000)
    parser.add_argument("--rows", type=int, default=100_000)
    chosen = parser.parse_args()
    print(json.dumps(run(chosen.records, chosen.rows), indent=2))


if __name__ == "__main__":
    main()
