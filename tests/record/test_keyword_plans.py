"""The queries of the read path go by their indexes, as the ordinary role, under row-level security."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow

from core.model.memory import Draft, embedding_id
from core.model.query import Filters
from core.model.terms import terms_asked
from core.record import keywords
from core.record.database import Database, Session
from core.record.keywords import filter_values
from core.record.queries import query
from core.write.writer import Writer

Admin = psycopg.Connection[DictRow]
WORDS = ["tea", "green", "car", "red", "boat", "tree", "house", "river"]
ROWS = 2000


@pytest.fixture
def full(writer: Writer, admin: Admin) -> None:
    drafts = [
        Draft(
            content=" ".join(WORDS[(n + step) % (3 + n % 6)] for step in range(6)) + f" only{n}",
            id=f"m{n:04}",
            session=f"s{n // 40}",
            project=f"p{n % 50}",
            tags=(f"t{n % 100}",),
        )
        for n in range(ROWS)
    ]
    list(writer.write_many("a", drafts))
    list(writer.write_many("b", drafts[:300]))
    for table in ("memory", "posting", "keyword", "keyword_thread"):
        admin.execute(f"VACUUM ANALYZE {table}".encode())


def plan(session: Session, name: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    row = session.execute(b"EXPLAIN (FORMAT JSON) " + query(name).encode(), values).fetchone()
    assert row is not None
    return list(nodes(row["QUERY PLAN"][0]["Plan"]))


def nodes(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield found
    for below in found.get("Plans", ()):
        yield from nodes(below)


def reads(found: list[dict[str, Any]], table: str) -> set[str]:
    """How a table is read, by kind of node."""
    return {node["Node Type"] for node in found if table in (node.get("Relation Name") or "")}


def asked_values(session: Session, text: str, filters: Filters, **more: Any) -> dict[str, Any]:
    terms = terms_asked(text)
    known = keywords.frequencies(session, "a", list(terms))
    asked = keywords.weighted(terms, known, keywords.totals(session, "a"))
    return {
        "tenant": "a",
        "terms": list(asked.terms),
        "weights": list(asked.weights),
        "k1": 0.9,
        "rest": 0.6,
        "slope": 0.05,
        "limit": 40,
        "reach": None,
        "among": None,
        "filtered": False,
        **filter_values(filters),
        **more,
    }


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize(
    "filters", [Filters(), Filters(session="s3"), Filters(project="p3"), Filters(tags_any=("t7",)), Filters(role="x")]
)
def test_the_keyword_leg_reads_postings_from_the_index_alone(database: Database, filters: Filters) -> None:
    among = [term for group in keywords.filter_terms(filters) for term in group] or None
    with database.tenant("a") as session:
        found = plan(session, "keyword_search", asked_values(session, "green tea only7", filters, among=among))
    assert reads(found, "posting") == {"Index Only Scan"}
    assert reads(found, "memory") == {"Index Scan"}


@pytest.mark.usefixtures("full")
def test_frequencies_are_counted_in_the_index_alone(database: Database) -> None:
    with database.tenant("a") as session:
        found = plan(session, "keyword_frequencies", {"tenant": "a", "terms": ["tea", "only7"]})
    assert reads(found, "posting") == {"Index Only Scan"}


@pytest.mark.usefixtures("full")
def test_threads_are_scored_and_neighbours_found_by_index(database: Database) -> None:
    with database.tenant("a") as session:
        rows = session.execute("SELECT embedding_id, thread, place, id FROM memory WHERE id = 'm0120'").fetchall()
        threads = [row["thread"] for row in rows]
        values = asked_values(session, "green tea", Filters(), threads=threads)
        scored = plan(session, "thread_scores", values)
        beside = {
            "tenant": "a",
            "points": [row["embedding_id"] for row in rows],
            "threads": threads,
            "places": [row["place"] for row in rows],
            "ids": [row["id"] for row in rows],
            "reach": 2,
        }
        near = plan(session, "thread_beside", beside)
        around = session.execute(query("thread_beside"), beside).fetchall()
    assert reads(scored, "posting") == {"Index Only Scan"}
    assert {kind for kind in reads(near, "memory") if "Index" not in kind} == set()
    expected = {embedding_id("a", f"m{n:04}"): n - 120 for n in (121, 122)}  # the first of its session
    assert {row["beside"]: row["distance"] for row in around} == expected


@pytest.mark.usefixtures("full")
def test_candidates_are_looked_up_by_their_points(database: Database) -> None:
    points = [embedding_id("a", f"m{n:04}") for n in range(80)] + [uuid.uuid4()]
    with database.tenant("a") as session:
        values = {"tenant": "a", "points": points, **filter_values(Filters(scope="default"))}
        found = plan(session, "candidates", values)
        assert len(session.execute(query("candidates"), values).fetchall()) == 80
    assert reads(found, "memory") == {"Index Scan"}
