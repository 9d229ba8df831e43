"""What becomes of the graph as memories age and go: archived, sealed, deleted, reaped, erased."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from core.adapters.key_providers import keys_from_text
from core.engine.graph import Graph
from core.errors import Refused, Unavailable
from core.model.graph import Named, Relation
from core.model.memory import Draft
from core.record.erasing import GraphPlace
from tests.batch.lifecycle_parts import Lifecycle, lifecycle_of

ADA = Relation(source="Ada", target="Byron")
PLACES = ("entity", "entity_name", "relation")


@pytest.fixture
def graph(life: Lifecycle) -> Graph:
    return Graph(life.parts.database)


def write(life: Lifecycle, name: str, *relations: Relation, **more: Any) -> None:
    given = {"content": f"a text of {name} that is worth an archive", **more}
    life.writer.write("t", Draft(id=name, relations=relations, **given))


def near(graph: Graph, name: str) -> set[str]:
    return {one.entity.name for one in graph.neighbours("t", name)}


def rows(life: Lifecycle) -> list[int]:
    return [len(life.sql(f"SELECT tenant FROM {table}")) for table in PLACES]


def test_archived_and_restored_memories_go_on_supporting(life: Lifecycle, graph: Graph) -> None:
    write(life, "a", ADA)
    life.parts.drain()
    life.age()
    assert life.archive().archived == 1
    assert near(graph, "Ada") == {"Byron"}
    life.restore("a")
    assert near(graph, "Ada") == {"Byron"}


def test_what_no_memory_supports_any_more_is_reaped_with_its_names(life: Lifecycle, graph: Graph) -> None:
    graph.put("t", [Named(name="by hand")])
    write(life, "a", ADA, Relation(source="Byron", target="Shelley"))
    write(life, "b", ADA)
    life.writer.delete("t", "a")
    assert rows(life) == [4, 4, 3]
    assert life.reap().relations == 2
    assert rows(life) == [3, 3, 1]
    life.sql("UPDATE memory SET expires_at = now() WHERE id = 'b'")
    assert near_or_nothing(graph) == []
    assert life.reap().relations == 1
    assert rows(life) == [1, 1, 0]
    assert life.reap().relations == 0


def near_or_nothing(graph: Graph) -> list[str]:
    return [one.name for one in graph.entities("t") if one.name != "by hand"]


def test_a_memory_that_becomes_sensitive_leaves_no_name_in_the_clear(database_url: str, tmp_path: Path) -> None:
    keys = keys_from_text(base64.b64encode(b"k" * 32).decode())
    life = lifecycle_of(database_url, tmp_path, keys=keys)
    graph = Graph(life.parts.database)
    write(life, "a", ADA)
    write(life, "b", Relation(source="Ada", target="Shelley"))
    version = life.row("b")["version"]
    life.writer.update("t", "b", {"sensitive": True}, version)
    assert near(graph, "Ada") == {"Byron"}
    assert "Shelley" not in str([life.sql(f"SELECT * FROM {table}") for table in PLACES])
    with pytest.raises(Refused, match="in the clear"):
        graph.relate("t", "b", [ADA])
    life.close()


def test_what_is_erased_leaves_no_name_but_those_that_others_support_or_a_caller_states(
    life: Lifecycle, graph: Graph
) -> None:
    graph.put("t", [Named(name="tea")])
    write(life, "a", ADA, Relation(source="Ada", target="tea"), subject="ada")
    write(life, "gone", Relation(source="Ada", target="Annabella"), subject="ada")
    write(life, "b", Relation(source="Byron", target="Venice"))
    life.writer.delete("t", "gone")
    receipt = life.erase(subject="ada").receipt
    assert receipt is not None
    assert receipt["stores"]["graph"] == {"looked_for": 2, "found": 0, "gone": True}
    assert [one.name for one in graph.entities("t")] == ["Byron", "tea", "Venice"]
    assert rows(life) == [3, 3, 1]


def test_an_erasure_of_everything_takes_what_callers_stated_too(life: Lifecycle, graph: Graph) -> None:
    graph.put("t", [Named(name="tea")], [Relation(source="tea", target="milk")])
    write(life, "a", ADA)
    receipt = life.erase().receipt
    assert receipt is not None
    assert receipt["stores"]["graph"]["gone"]
    assert rows(life) == [0, 0, 0]


def test_an_erasure_killed_before_the_graph_is_resumed_and_ends_gone(
    life: Lifecycle, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(life, "a", ADA, subject="ada")
    remove, calls = GraphPlace.remove, []

    def killed(*given: Any, **named: Any) -> None:
        calls.append(given)
        if len(calls) == 1:
            raise Unavailable("killed here")
        remove(*given, **named)

    monkeypatch.setattr(GraphPlace, "remove", killed)
    assert life.erase(subject="ada").postponed is not None
    assert near_or_nothing(graph) == []
    assert rows(life) == [2, 2, 1]
    receipt = life.erase(subject="ada").receipt
    assert receipt is not None
    assert receipt["stores"]["graph"]["gone"]
    assert rows(life) == [0, 0, 0]
