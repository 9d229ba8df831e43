"""A relation's memory is written beside another transaction: what it no longer says is gone, whoever came first."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable

import psycopg
import pytest
from psycopg.rows import DictRow

from core.engine.graph import Graph
from core.model.graph import Relation
from core.model.memory import Draft
from core.record import graph as record
from core.record import memories
from core.record.database import Database
from core.write.gate import admit
from core.write.writer import Writer

Admin = psycopg.Connection[DictRow]
WAITING = "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
BOUND_SECONDS = 10.0


def to(source: str, target: str, kind: str = "knows") -> Relation:
    return Relation(source=source, target=target, type=kind)


def beside(admin: Admin, work: Callable[[], object]) -> threading.Thread:
    """Begin work in a thread; returns once it waits for a lock."""
    thread = threading.Thread(target=work)
    thread.start()
    deadline = time.monotonic() + BOUND_SECONDS
    while time.monotonic() < deadline:
        row = admin.execute(WAITING).fetchone()
        if row is not None and row["n"] > 0:
            return thread
        time.sleep(0.01)
    pytest.fail("nobody waits")


def id_in_order(name: str) -> str:
    """What the id of an entity of tenant a is made of: the greatest goes last where ids decide."""
    return hashlib.md5(f"1:a{name}".encode()).hexdigest()


@pytest.fixture
def graph(database: Database) -> Graph:
    return Graph(database)


def test_a_write_that_waited_for_a_relation_to_be_added_takes_it_back(
    database: Database, graph: Graph, writer: Writer, admin: Admin
) -> None:
    writer.write("a", Draft(id="m", content="old"))
    with database.tenant("a") as session:
        assert record.supporter(session, "a", "m") is False
        record.support(session, "a", "m", [to("Ada", "Secret")])
        thread = beside(admin, lambda: writer.write("a", Draft(id="m", content="new, nothing of Ada")))
    thread.join(BOUND_SECONDS)
    assert graph.entities("a") == []


def test_a_bulk_write_over_a_first_write_leaves_its_own_relations_alone(
    database: Database, graph: Graph, writer: Writer, admin: Admin
) -> None:
    writer.write("a", Draft(id="x", content="x"))  # the tenant is known
    second = Draft(id="m", content="second", relations=[to("Bob", "Eve")])
    with database.tenant("a") as session:
        memories.store(session, "a", "m", admit("a", Draft(id="m", content="first", relations=[to("Ada", "C")])).draft)
        thread = beside(admin, lambda: list(writer.write_many("a", [second])))
    thread.join(BOUND_SECONDS)
    assert [one.name for one in graph.entities("a")] == ["Bob", "Eve"]


def test_the_direct_way_is_found_beside_more_ways_than_are_followed(graph: Graph) -> None:
    last = max(
        (f"b{number}" for number in range(2000)), key=lambda name: hashlib.md5(f"1:a{name}".encode()).hexdigest()
    )
    for start in range(0, 700, 100):
        through = [f"n{number}" for number in range(start, start + 100)]
        graph.put("a", [], [one for name in through for one in (to("A", name), to(name, last))])
    graph.put("a", [], [to("A", last, "direct")])
    assert [len(path.links) for path in graph.paths("a", "A", last, depth=4, limit=3)] == [1, 2, 2]
