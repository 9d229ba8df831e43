"""Rows of an earlier release are found by their words, and have their places, once they were refilled."""

from __future__ import annotations

import psycopg
from psycopg.rows import DictRow

from core.model.memory import Draft
from core.record.database import Database
from core.record.refill import refill
from core.write.writer import Writer

TABLES = ("posting", "keyword", "keyword_thread", "keyword_total")


def state(admin: psycopg.Connection[DictRow]) -> list[object]:
    sums = "SELECT sum(memories) AS memories, sum(length) AS length, sum(threads) AS threads FROM keyword_total"
    queries = ["SELECT * FROM posting", "SELECT * FROM keyword_thread", "SELECT id, place FROM memory", sums]
    return [sorted(map(str, admin.execute(text.encode()).fetchall())) for text in queries]


def test_a_refill_gives_what_a_write_would_have_given_and_then_nothing(
    writer: Writer, database: Database, admin: psycopg.Connection[DictRow]
) -> None:
    drafts = [Draft(id=f"m{n:02}", content=f"green tea {n}", session=f"s{n % 3}") for n in range(30)]
    list(writer.write_many("a", [*drafts, Draft(id="x", content="alone")]))
    writer.delete("a", "m07")
    written = state(admin)
    admin.execute(f"TRUNCATE {', '.join(TABLES)}".encode())
    admin.execute(b"UPDATE memory SET place = NULL")
    assert sum(refill(database, "a")) == 29 + 29 + 1 + 1  # the tombstone, too, has a place
    assert state(admin)[:2] == written[:2]
    assert state(admin)[3] == written[3]
    assert list(refill(database, "a")) == []


def test_counts_fall_as_they_rose(writer: Writer, admin: psycopg.Connection[DictRow]) -> None:
    list(writer.write_many("a", [Draft(id=f"m{n}", content="green tea", session="s") for n in range(5)]))
    writer.write("a", Draft(id="m1", content="black coffee with milk", session="other"))
    writer.delete_many("a", [f"m{n}" for n in range(5)])
    assert admin.execute(b"SELECT * FROM posting").fetchall() == []
    assert admin.execute(b"SELECT * FROM keyword_thread").fetchall() == []
    row = admin.execute(b"SELECT sum(memories) AS m, sum(length) AS l, sum(threads) AS t FROM keyword_total").fetchone()
    assert row is not None
    assert (row["m"], row["l"], row["t"]) == (0, 0, 0)
