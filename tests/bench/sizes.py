"""Bytes a record takes in each store, for `memory plan`: `python -m tests.bench.sizes`."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from core.assembly import open_engine
from core.assembly.stores import prepare_record, stop_embedded
from core.batch import archive, snapshot
from core.batch.embed import Portion, step
from core.model.memory import Draft
from core.settings import Settings, load_settings
from tests.bench.texts import texts

TENANT = "bench"
SIZES = """SELECT p.relname AS table, sum(pg_total_relation_size(i.inhrelid)) AS bytes
FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent WHERE p.relkind = 'p' GROUP BY 1
UNION ALL
SELECT relname, pg_total_relation_size(oid) FROM pg_class
WHERE relkind = 'r' AND NOT relispartition AND relnamespace = 'public'::regnamespace"""


def on_disk(folder: Path) -> int:
    """Bytes the files below a folder really take: those of the index are sparse."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def run(settings: Settings, records: int) -> dict[str, Any]:
    """Bytes a record in the record's tables, the index, the snapshot and the archive."""
    url = prepare_record(settings)
    contents = texts(records, random.Random(3))
    with open_engine(settings) as engine:
        drafts = (Draft(id=f"b{number}", content=text) for number, text in enumerate(contents))
        for _ in engine.write_many(TENANT, drafts):
            pass
        step(engine.embed_work(), Portion(tenant=TENANT, records=records, last=True))
        kept = snapshot.step(engine.safekeeping.snapshot_work(), TENANT)
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("VACUUM ANALYZE")
            sizes = {name: int(size) for name, size in admin.execute(SIZES.encode()).fetchall()}
            admin.execute("UPDATE memory SET updated_at = now() - interval '1 day'")
        archived = archive.step(engine.lifecycle.archive_work(), archive.plan([TENANT])[0])
    return {
        "records": records,
        "text_bytes": round(sum(len(text.encode()) for text in contents) / records),
        "record": {name: round(size / records) for name, size in sorted(sizes.items()) if size / records >= 1},
        "index": round(on_disk(settings.home / "vectors") / records),
        "snapshot": round(kept.bytes / kept.rows),
        "archive_before": round(archived.bytes_before / archived.archived),
        "archive_after": round(archived.bytes_after / archived.archived),
    }


def main() -> None:
    """Measure on a home of its own, and print."""
    rules: list[Any] = [{"archive_after": "PT1H"}]
    with tempfile.TemporaryDirectory(prefix="memory-bench-") as home:
        settings = load_settings(home=Path(home) / "home", policies=rules)
        try:
            print(json.dumps(run(settings, 20_000), indent=2))
        finally:
            stop_embedded(settings)


if __name__ == "__main__":
    main()
