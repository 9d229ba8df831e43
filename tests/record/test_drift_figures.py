"""The figures the record keeps of what an index should hold: exact after every kind of change, whoever is at work."""

from __future__ import annotations

import random
import re
import threading
import uuid
from datetime import timedelta
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg.rows import DictRow

from core.errors import NotFound
from core.index.digest import WHOLE, point_hashes, stretch_digests
from core.model.memory import Draft, embedding_id
from core.model.point import Stamp
from core.record import drift
from core.record.database import Database
from core.record.drift import FOLDED_AT_ONCE
from core.record.queries import query
from core.write.writer import Writer

Admin = psycopg.Connection[DictRow]


def exact(database: Database, admin: Admin, tenant: str = "a") -> None:
    """The kept figures are those of the rows, and those an index in step would give."""
    rows = admin.execute(
        """SELECT embedding_id AS point, version FROM memory
           WHERE tenant = %s AND deleted_at IS NULL AND tier <> 'archive' ORDER BY embedding_id""",
        [tenant],
    ).fetchall()
    index = stretch_digests(((row["point"], Stamp(row["version"], "h")) for row in rows), uuid.UUID(int=2**128 - 1))
    kept = {one: (points, digest % WHOLE) for one, (points, digest) in drift.digests(database, tenant).items()}
    assert kept == index
    assert drift.recount(database, tenant, 0, 255, dry=True) == []


def test_the_hash_is_the_servers_own(admin: Admin) -> None:
    chance = random.Random(1)
    ids = [uuid.UUID(int=chance.getrandbits(128)) for _ in range(500)]
    versions = [chance.randrange(1, 2**53) for _ in ids]
    rows = admin.execute(
        "SELECT uuid_hash_extended(i, v) AS hash FROM unnest(%s::uuid[], %s::bigint[]) AS t (i, v)", [ids, versions]
    ).fetchall()
    ours = point_hashes(b"".join(one.bytes for one in ids), np.array(versions, dtype=np.uint64))
    assert [int(one) for one in ours] == [row["hash"] % WHOLE for row in rows]


def test_every_kind_of_change_is_counted(database: Database, writer: Writer, admin: Admin) -> None:
    list(writer.write_many("a", [Draft(id=f"m{n}", content=f"note {n}") for n in range(300)]))
    exact(database, admin)
    list(writer.write_many("a", [Draft(id=f"m{n}", content=f"anew {n}") for n in range(100, 350)]))
    writer.write("a", Draft(id="m1", content="anew"))
    writer.update("a", "m2", {"importance": 0.9}, 1)
    writer.delete("a", "m3")
    writer.write("a", Draft(id="m3", content="back"))
    writer.delete("a", "m4")
    exact(database, admin)
    admin.execute("UPDATE memory SET tier = 'archive' WHERE id IN ('m5', 'm6')")
    admin.execute("UPDATE memory SET tier = 'warm' WHERE id = 'm6'")
    admin.execute("UPDATE memory SET accessed_at = now()")
    admin.execute("DELETE FROM memory WHERE id IN ('m4', 'm7')")
    exact(database, admin)
    list(writer.write_many("b", [Draft(id="m1", content="of another tenant")]))
    exact(database, admin)
    exact(database, admin, "b")


def test_a_change_that_leaves_version_and_tier_alone_leaves_no_difference(writer: Writer, admin: Admin) -> None:
    writer.write("a", Draft(id="m1", content="x"))
    (before,) = admin.execute("SELECT count(*) AS n FROM point_digest_delta").fetchall()
    admin.execute("UPDATE memory SET accessed_at = now()")
    assert admin.execute("SELECT count(*) AS n FROM point_digest_delta").fetchall() == [before]


def test_folding_changes_no_figure_and_two_at_once_fold_each_difference_once(
    database: Database, writer: Writer, admin: Admin
) -> None:
    for n in range(40):
        writer.write("a", Draft(id=f"m{n}", content=f"note {n}"))
    before = drift.digests(database, "a")
    threads = [threading.Thread(target=drift.fold, args=(database, "a")) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    assert drift.fold(database, "a") == 0
    assert admin.execute("SELECT count(*) AS n FROM point_digest_delta").fetchall() == [{"n": 0}]
    assert drift.digests(database, "a") == before
    exact(database, admin)
    assert FOLDED_AT_ONCE >= 1000


@pytest.mark.parametrize("wrong", ["points = points + 3", "digest = digest - 11"])
def test_wrong_figures_are_found_and_set_right_once_by_two_at_once(
    database: Database, writer: Writer, admin: Admin, wrong: str
) -> None:
    list(writer.write_many("a", [Draft(id=f"m{n}", content=f"note {n}") for n in range(100)]))
    drift.fold(database, "a")
    admin.execute(f"UPDATE point_digest SET {wrong} WHERE stretch < 128".encode())
    assert drift.recount(database, "a", 0, 255, dry=True)
    threads = [
        threading.Thread(target=drift.recount, args=(database, "a", 0, 255), kwargs={"dry": False}) for _ in range(3)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    exact(database, admin)


def test_figures_stay_exact_while_everybody_writes_folds_and_recounts(
    database: Database, writer: Writer, admin: Admin
) -> None:
    list(writer.write_many("a", [Draft(id=f"m{n}", content=f"note {n}") for n in range(50)]))
    problems: list[Exception] = []

    def write(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(60):
            name = f"m{chance.randrange(80)}"
            if chance.random() < 0.3:
                writer.delete("a", name)
            else:
                writer.write("a", Draft(id=name, content=f"anew {chance.random()}"))

    def tidy() -> None:
        for _ in range(40):
            drift.fold(database, "a")
            if drift.recount(database, "a", 0, 255, dry=False):
                problems.append(NotFound("figures were wrong"))

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(3)] + [threading.Thread(target=tidy)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert problems == []
    exact(database, admin)


def test_migrating_counts_what_is_there(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from core.model.space import EmbeddingSpace
    from core.record import migrate as module
    from core.record.database import Limits

    every = module.migrations()
    monkeypatch.setattr(module, "migrations", lambda: tuple(one for one in every if not 60 <= one.number < 80))
    module.migrate(empty_database_url)
    database = Database(empty_database_url, Limits())
    database.open()
    writer = Writer(database, EmbeddingSpace(provider="test", model="four", dimensions=4), lambda: "x")
    list(writer.write_many("a", [Draft(id=f"m{n}", content=f"note {n}") for n in range(100)]))
    writer.delete("a", "m3")
    monkeypatch.setattr(module, "migrations", lambda: every)
    assert 60 in module.migrate(empty_database_url)
    writer.write("a", Draft(id="m200", content="later"))
    with psycopg.connect(empty_database_url, row_factory=psycopg.rows.dict_row) as admin:
        exact(database, admin)
    database.close()


@pytest.mark.parametrize(
    "name", ["drift_page", "drift_standing", "drift_bare", "relay_next", "orphan_due", "drift_recount"]
)
def test_looks_read_the_record_through_an_index(database: Database, writer: Writer, admin: Admin, name: str) -> None:
    list(writer.write_many("a", [Draft(id=f"m{n}", content=f"note {n}") for n in range(3000)]))
    for n in range(300):
        writer.write("b", Draft(id=f"m{n}", content=f"note {n}"))
    for table in ("memory", "event", "point_digest", "point_digest_delta", "outbox"):
        admin.execute(f"ANALYZE {table}".encode())
    values: dict[str, Any] = {
        "tenant": "a", "generation": 1, "limit": 100, "age": timedelta(0), "safe": 50, "dry": True,
        "points": [embedding_id("a", f"m{n}") for n in range(50)],
        "first": uuid.UUID(int=0), "last": uuid.UUID(int=2**120),
        "from": uuid.UUID(int=0), "to": uuid.UUID(int=2**120),
    }  # fmt: skip
    if name == "drift_recount":
        values |= {"first": 0, "last": 1}
    worker = query(name).startswith("-- as: worker")
    with database.across() if worker else database.tenant("a") as session:
        row = session.execute(b"EXPLAIN (FORMAT JSON) " + query(name).encode(), values).fetchone()
    assert row is not None
    plan = str(row["QUERY PLAN"])
    assert "'Seq Scan', 'Parallel Aware': False, 'Async Capable': False, 'Relation Name': 'memory" not in plan
    assert re.search(r"'Node Type': '(Bitmap )?Index", plan)
