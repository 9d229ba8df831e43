"""How the graph's queries run: through indexes, under row-level security, with statistics and with none."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow

from core.model.graph import Relation, fold_name
from core.model.memory import Draft
from core.record.database import Database
from core.record.graph import BALL, OPEN_PATHS, entities_of
from core.record.queries import query
from core.write.writer import Writer
from tests.record.test_queries import scans

Admin = psycopg.Connection[DictRow]
MEMORIES = 2000
TABLES = ("entity", "entity_name", "relation", "memory")


@pytest.fixture(params=[True, False], ids=["analyzed", "fresh"])
def full(request: pytest.FixtureRequest, writer: Writer, admin: Admin) -> None:
    """Two thousand memories of tenant `a`, each relates a thing to the next and to a hub; and some of another's."""

    def draft(n: int) -> Draft:
        links = [
            Relation(source=f"thing {n}", target=f"thing {n + 1}"),
            Relation(source=f"thing {n}", target=f"hub {n % 7}"),
        ]
        return Draft(id=f"m{n:04}", content=f"number {n}", relations=links)

    list(writer.write_many("a", map(draft, range(MEMORIES))))
    list(writer.write_many("b", map(draft, range(50))))
    for table in TABLES if request.param else ():
        admin.execute(f"ANALYZE {table}".encode())


REACH: dict[str, Any] = {"limit": 50, "types": None, "outward": True, "inward": True, "most": 500, "first": 10_000}
IDS = [f"m{n:04}" for n in range(0, 320, 10)]


@pytest.mark.usefixtures("full")
def test_every_query_of_the_graph_is_answered_through_indexes(database: Database) -> None:
    with database.tenant("a") as session:
        names = [fold_name(name) for name in ("thing 3", "thing 7")]
        one, other = (entity.id for entity in entities_of(session, "a", names).values())
        asked: dict[str, dict[str, Any]] = {
            "graph_resolve": {"keys": names},
            "graph_names": {"entity": one, "limit": 100},
            "graph_entities": {"type": None, "after": "thing 2", "limit": 50},
            "graph_neighbours": {"entity": one, "depth": 3, **REACH},
            "graph_paths": {"begin": one, "end": other, "depth": 4, "ball": BALL, "open": OPEN_PATHS, **REACH},
            "graph_steps": {"froms": [one], "tos": [other], **REACH},
            "graph_support": {"source": one, "target": other, "type": "related to", "after": None, "limit": 50},
            "graph_supporter": {"id": "m0003"},
            "graph_around": {"ids": IDS[:10], "shares": [0.5] * 10, "names": 24, "most": 64, "limit": 50},
            "graph_dead": {"limit": 100},
            "graph_look": {"ids": IDS},
        }
        found = {name: scans(session, name, {"tenant": "a", **values}) for name, values in asked.items()}
    for name, plan in found.items():
        assert not any(table in read for read in plan.get("Seq Scan", ()) for table in TABLES), (
            f"{name} reads a whole table: {plan}"
        )
        used = set().union(*(read for kind, read in plan.items() if "Index" in kind))
        assert used, name
        of_memory = {read for read in used if read.startswith("memory_")}
        assert all("pkey" in read or "deleted" in read for read in of_memory), f"{name}: {of_memory}"


@pytest.mark.usefixtures("full")
def test_a_hub_costs_what_its_bound_allows_and_a_long_chain_its_depth(database: Database) -> None:
    with database.tenant("a") as session:
        (hub,) = entities_of(session, "a", [fold_name("hub 3")]).values()
        values = {"tenant": "a", "entity": hub.id, "depth": 2, **REACH}
        text = b"EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) "
        row = session.execute(text + _query("graph_neighbours"), values).fetchone()
    assert row is not None
    read = sum(
        node["Actual Rows"] * node["Actual Loops"]
        for node in _nodes(row["QUERY PLAN"][0]["Plan"])
        if "Index" in node["Node Type"]
    )
    assert read < 6000


def _query(name: str) -> bytes:
    return query(name).encode()


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for below in plan.get("Plans", ()) for node in _nodes(below))]
