"""The graph: what memories say of whom is put with them, read while they live, merged, bounded, and gone with them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow

from core.engine.graph import Graph
from core.errors import Busy, NotFound, Refused
from core.model.graph import MAX_RELATIONS, Named, Relation
from core.model.memory import Draft
from core.record import graph as record
from core.record.database import Database
from core.write.writer import Kept, Writer

Admin = psycopg.Connection[DictRow]


@pytest.fixture
def graph(database: Database) -> Graph:
    return Graph(database)


def to(source: str, target: str, kind: str = "knows", weight: float = 1.0) -> Relation:
    return Relation(source=source, target=target, type=kind, weight=weight)


def keep(writer: Writer, name: str, *relations: Relation, tenant: str = "a", **more: Any) -> Kept:
    given = {"content": f"text of {name}", **more}
    return writer.write(tenant, Draft(id=name, relations=relations, **given)).kept


def near(graph: Graph, name: str, tenant: str = "a", **asked: Any) -> dict[str, int]:
    return {one.entity.name: one.distance for one in graph.neighbours(tenant, name, **asked)}


def weight(graph: Graph, source: str, target: str, tenant: str = "a") -> float:
    return sum(one.weight for one in graph.support(tenant, source, "knows", target))


def names(graph: Graph, tenant: str = "a") -> list[str]:
    return [one.name for one in graph.entities(tenant)]


def everything(admin: Admin) -> list[list[dict[str, Any]]]:
    tables = ("entity", "entity_name", "relation")
    return [admin.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3".encode()).fetchall() for table in tables]


def test_names_are_one_whatever_their_case_accents_width_and_hyphens(graph: Graph, writer: Writer) -> None:
    keep(writer, "m1", to("Ada Lovelace", "Café Zoë"))
    keep(writer, "m2", to("ada-lovelace", "cafe  zoe"), to("ＡＤＡ＿Lovelace", "Babbage"))
    assert names(graph) == ["Ada Lovelace", "Babbage", "Café Zoë"]
    assert weight(graph, "ADA lovelace", "CAFE ZOE") == 2
    assert graph.entity("a", "ada_lovelace").names == ("Ada Lovelace",)
    keep(writer, "m3", to("C", "C++"), to("-5", "5"))  # other marks, and those at the ends, are part of a name
    assert {"C", "C++", "-5", "5"} <= set(names(graph))


def test_a_write_states_its_relations_anew_and_what_was_added_stays_while_it_is_unchanged(
    graph: Graph, writer: Writer
) -> None:
    keep(writer, "m", to("Ada", "Byron"), to("Ada", "Babbage"))
    graph.relate("a", "m", [to("Ada", "Somerville")])
    assert keep(writer, "m", to("Ada", "Byron", weight=2)) is Kept.UNCHANGED
    assert near(graph, "Ada") == {"Byron": 1, "Somerville": 1}
    assert weight(graph, "Ada", "Byron") == 2
    keep(writer, "m", to("Ada", "Byron"), content="another text")
    assert near(graph, "Ada") == {"Byron": 1}
    keep(writer, "m", content="a text that says nothing of them")
    assert names(graph) == []


def test_bulk_writes_do_the_same_and_one_bad_item_fails_no_neighbour(
    graph: Graph, writer: Writer, admin: Admin
) -> None:
    good = [Draft(id=f"m{n}", content=f"{n}", relations=[to("Ada", f"friend {n}")]) for n in range(3)]
    bad = Draft(id="bad", content="x", relations=[to("Ada", "\x07")])
    assert [one.kept for one in writer.write_many("a", [good[0], bad, *good[1:]])] == [
        Kept.STORED,
        Kept.REFUSED,
        Kept.STORED,
        Kept.STORED,
    ]
    assert len(near(graph, "Ada")) == 3
    before = everything(admin)
    assert {one.kept for one in writer.write_many("a", good)} == {Kept.UNCHANGED}
    assert everything(admin) == before
    list(writer.write_many("a", [Draft(id="m0", content="0"), Draft(id="m1", content="changed")]))
    assert near(graph, "Ada") == {"friend 2": 1}


def test_an_update_keeps_support_until_the_text_changes_or_relations_are_given(graph: Graph, writer: Writer) -> None:
    keep(writer, "m", to("Ada", "Byron"))
    version = writer.update("a", "m", {"importance": 0.9, "labels": {"k": "v"}}, 1).version or 0
    assert near(graph, "Ada") == {"Byron": 1}
    writer.update("a", "m", {"relations": [to("Ada", "Babbage")]}, version)
    assert near(graph, "Ada") == {"Babbage": 1}
    writer.update("a", "m", {"content": "of something else"}, version)
    assert names(graph) == []


@pytest.mark.parametrize("end", ["deleted", "expired", "purged"])
def test_a_relation_is_unseen_from_the_moment_its_last_memory_is_gone(
    graph: Graph, writer: Writer, database: Database, admin: Admin, end: str
) -> None:
    keep(writer, "m", to("Ada", "Byron"), to("Byron", "Shelley"))
    keep(writer, "other", to("Ada", "Byron"))
    if end == "deleted":
        writer.delete("a", "m")
    elif end == "expired":
        admin.execute("UPDATE memory SET expires_at = now() WHERE id = 'm'")
    else:
        admin.execute("DELETE FROM memory WHERE id = 'm'")
    assert near(graph, "Ada", depth=3) == {"Byron": 1}
    assert weight(graph, "Ada", "Byron") == 1
    assert names(graph) == ["Ada", "Byron"]
    for ask in (graph.entity, graph.neighbours):
        with pytest.raises(NotFound):
            ask("a", "Shelley")
    writer.delete("a", "other")
    assert names(graph) == []
    with database.tenant("a") as session:
        assert record.forget(session, "a", ["m", "other"]) == (1 if end == "expired" else 3)  # not before it is reaped
        assert record.forget(session, "a", ["m", "other"]) == 0
    assert [len(rows) for rows in everything(admin)] == ([3, 3, 2] if end == "expired" else [0, 0, 0])


def test_a_memory_written_again_supports_what_it_says_now(graph: Graph, writer: Writer) -> None:
    keep(writer, "m", to("Ada", "Byron"))
    writer.delete("a", "m")
    keep(writer, "m")
    assert names(graph) == []
    writer.delete("a", "m")
    keep(writer, "m", to("Ada", "Babbage"))
    assert near(graph, "Ada") == {"Babbage": 1}


def test_what_is_sensitive_supports_nothing_and_leaves_no_name(graph: Graph, writer: Writer, admin: Admin) -> None:
    with pytest.raises(Refused, match="in the clear"):
        keep(writer, "m", to("Ada", "Byron"), sensitive=True)
    keep(writer, "m", to("Ada", "Byron"))
    admin.execute("UPDATE memory SET key_id = 'key'")
    with pytest.raises(Refused, match="in the clear"):
        graph.relate("a", "m", [to("Ada", "Babbage")])
    with pytest.raises(NotFound):
        graph.relate("a", "nobody", [to("Ada", "Babbage")])


def test_what_is_stated_by_hand_stays_until_it_is_taken_back(graph: Graph, writer: Writer, admin: Admin) -> None:
    graph.put("a", [Named(name="Ada", type="person")], [to("Ada", "Byron", weight=3)])
    graph.put("a", [Named(name="ADA")], [to("Ada", "Byron", weight=4)])
    assert (graph.entity("a", "ada").type, graph.entity("a", "ada").stated) == ("person", True)
    assert [(one.memory_id, one.weight) for one in graph.support("a", "Ada", "knows", "Byron")] == [(None, 4.0)]
    keep(writer, "m", to("Ada", "Byron"))
    assert graph.neighbours("a", "Ada")[0].link.weight == 5
    assert graph.withdraw("a", [to("ada", "BYRON")]) == 1
    assert graph.withdraw("a", [to("ada", "BYRON")]) == 0
    assert weight(graph, "Ada", "Byron") == 1
    assert graph.withdraw("a", [to("ada", "BYRON")], "m") == 1
    assert names(graph) == ["Ada"]
    assert [graph.forget("a", "Ada"), graph.forget("a", "Ada")] == [True, False]
    assert everything(admin) == [[], [], []]


def test_a_type_is_taken_where_none_is_known_and_changed_by_hand_alone(graph: Graph, writer: Writer) -> None:
    keep(writer, "m1", to("Ada", "Byron"))
    keep(writer, "m2", Relation(source="Ada", target="Byron", source_type="person", target_type="poet"))
    keep(writer, "m3", Relation(source="Ada", target="Byron", source_type="machine"))
    assert [graph.entity("a", one).type for one in ("Ada", "Byron")] == ["person", "poet"]
    assert [one.name for one in graph.entities("a", kind="poet")] == ["Byron"]
    graph.put("a", [Named(name="Ada", type="mathematician")])
    assert graph.entity("a", "Ada").type == "mathematician"


def test_a_merge_moves_relations_adds_weights_drops_loops_and_keeps_the_old_names(
    graph: Graph, writer: Writer, admin: Admin
) -> None:
    keep(writer, "m1", to("Ada Lovelace", "Byron"), to("Ada King", "Byron", weight=2), to("Ada King", "Ada Lovelace"))
    keep(writer, "m2", to("Babbage", "Ada King"), to("Ada King", "Countess"))
    assert graph.merge("a", "Ada Lovelace", ["ada king", "A. A. L."]) == 1
    assert near(graph, "A. A. L.") == {"Byron": 1, "Babbage": 1, "Countess": 1}
    assert weight(graph, "Ada Lovelace", "Byron") == 3
    assert graph.entity("a", "Ada King").names == ("A. A. L.", "Ada King", "Ada Lovelace")
    before = everything(admin)
    assert graph.merge("a", "Ada Lovelace", ["Ada King", "A. A. L."]) == 0
    assert graph.merge("a", "Ada King", ["Ada Lovelace"]) == 0
    assert everything(admin) == before
    keep(writer, "m1", to("Ada Lovelace", "Byron"), to("Ada King", "Byron", weight=2), to("Ada King", "Ada Lovelace"))
    assert everything(admin) == before
    keep(writer, "m3", to("ADA KING", "Somerville"))
    assert near(graph, "Ada Lovelace")["Somerville"] == 1
    for one in ("m1", "m2", "m3"):
        writer.delete("a", one)
    assert names(graph) == ["Ada Lovelace"]  # it was named by hand
    with pytest.raises(NotFound):
        graph.merge("a", "nobody", ["Ada"])


def test_circles_end_and_each_entity_stands_once_at_its_shortest_distance(graph: Graph, writer: Writer) -> None:
    keep(writer, "m", to("a", "b"), to("b", "c"), to("c", "a"), to("c", "d"), to("d", "d2"), to("d2", "a"))
    assert near(graph, "a", depth=6) == {"b": 1, "c": 1, "d2": 1, "d": 2}
    assert near(graph, "a", depth=6, direction="out") == {"b": 1, "c": 2, "d": 3, "d2": 4}
    assert near(graph, "a", depth=1, direction="in") == {"c": 1, "d2": 1}
    ways = [one.names for one in graph.paths("a", "a", "d", depth=6)]
    assert ways == [("a", "c", "d"), ("a", "d2", "d"), ("a", "b", "c", "d")]
    assert [one.names for one in graph.paths("a", "a", "d", depth=6, direction="out")] == [("a", "b", "c", "d")]
    assert graph.paths("a", "a", "d", depth=2, direction="out") == []
    assert [one.names for one in graph.paths("a", "d", "a", depth=6, direction="in")] == [("d", "c", "b", "a")]


def test_only_relations_of_the_types_asked_are_followed(graph: Graph, writer: Writer) -> None:
    keep(writer, "m", to("a", "b", "knows"), to("b", "c", "likes"), to("a", "d", "likes"))
    assert near(graph, "a", depth=3, types=["likes"]) == {"d": 1}
    assert graph.paths("a", "a", "c", types=["knows"]) == []
    assert [link.type for link in graph.paths("a", "a", "c")[0].links] == ["knows", "likes"]


def test_answers_are_bounded_the_strongest_first_and_the_same_each_time(graph: Graph, writer: Writer) -> None:
    for hub in ("hub", "hub2"):
        keep(writer, hub, *(to(hub, f"n{n:03}", weight=1 + n % 7) for n in range(MAX_RELATIONS)))
    found = [(one.entity.name, one.link.weight) for one in graph.neighbours("a", "hub", depth=6, limit=9)]
    assert [weight for _, weight in found] == [7.0] * 9
    assert found == [(one.entity.name, one.link.weight) for one in graph.neighbours("a", "hub", depth=6, limit=9)]
    assert len(graph.neighbours("a", "hub", depth=6, limit=500)) == MAX_RELATIONS + 1
    ways = graph.paths("a", "hub", "hub2", depth=6, limit=100)
    assert len(ways) == 100
    assert {len(one.links) for one in ways} == {2}
    assert min(link.weight for link in ways[0].links) == 7


@pytest.mark.parametrize(
    "ask",
    [
        lambda graph: graph.neighbours("a", "x", depth=7),
        lambda graph: graph.neighbours("a", "x", depth=0),
        lambda graph: graph.neighbours("a", "x", limit=501),
        lambda graph: graph.neighbours("a", "x", direction="both"),
        lambda graph: graph.paths("a", "x", "y", depth=7),
        lambda graph: graph.paths("a", "x", "y", limit=101),
        lambda graph: graph.entities("a", limit=1001),
        lambda graph: graph.neighbours("", "x"),
        lambda graph: graph.entity("a", " "),
        lambda graph: graph.entity("a", "ﷺ" * 170),
        lambda graph: graph.put("a", [Named(name="n" * 513)]),
        lambda graph: graph.put("a", [Named(name=f"n{n}") for n in range(MAX_RELATIONS + 1)]),
        lambda graph: graph.put("a", [], [to("Ada", "ADA")]),
        lambda graph: graph.put("a", [], [to("Ada", "Byron", "t" * 129)]),
        lambda graph: graph.put("a", [], [to("Ada", "By\nron")]),
        *(
            lambda graph, wrong=wrong: graph.put("a", [], [to("Ada", "Byron", weight=wrong)])
            for wrong in (0, -1, float("nan"), float("inf"), 1e7, True, "1")
        ),
    ],
)
def test_what_breaks_a_rule_is_refused(graph: Graph, ask: Callable[[Graph], object], admin: Admin) -> None:
    with pytest.raises(Refused):
        ask(graph)
    assert everything(admin) == [[], [], []]


def test_the_same_names_of_two_tenants_never_meet(graph: Graph, writer: Writer, admin: Admin) -> None:
    keep(writer, "m", to("Ada", "Byron"), tenant="a")
    keep(writer, "m", to("Ada", "Babbage"), tenant="b")
    assert (near(graph, "Ada", "a", depth=6), near(graph, "Ada", "b", depth=6)) == ({"Byron": 1}, {"Babbage": 1})
    graph.merge("a", "Ada", ["Babbage", "Byron"])
    writer.delete("a", "m")
    assert near(graph, "Ada", "b", depth=6) == {"Babbage": 1}
    for tenant in (None, ""):
        with admin.transaction():
            admin.execute("SELECT set_config('role', 'memory_app', true)")
            admin.execute("SELECT set_config('memory.tenant', %s, true)", [tenant])
            assert everything(admin) == [[], [], []]
    with graph._writer._database.tenant("a") as session:
        assert {row["tenant"] for row in session.execute("SELECT tenant FROM entity").fetchall()} == {"a"}
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("INSERT INTO entity (tenant, id, folded, name) VALUES ('b', gen_random_uuid(), 'x', 'x')")
        session.rollback()


def test_two_merges_at_once_the_one_into_the_other_leave_one_entity(graph: Graph, writer: Writer, admin: Admin) -> None:
    for round_ in range(5):
        one, other = f"A{round_}", f"B{round_}"
        keep(writer, f"m{round_}", to(one, "x"), to(other, "y"))
        gate = threading.Barrier(3)
        problems: list[BaseException] = []

        def run(work: Callable[[], object], gate: threading.Barrier = gate, told: list[Any] = problems) -> None:
            gate.wait()
            try:
                work()
            except BaseException as problem:  # noqa: BLE001  told below
                told.append(problem)

        works: list[Callable[[], object]] = [
            lambda one=one, other=other: graph.merge("a", one, [other]),
            lambda one=one, other=other: graph.merge("a", other, [one]),
            lambda one=one, other=other, n=round_: keep(writer, f"n{n}", to(other, "z"), to(one, "z"), to(one, "x")),
        ]
        threads = [threading.Thread(target=run, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        found = graph.entity("a", one)
        assert (found.id, found.names) == (graph.entity("a", other).id, (one, other))
        assert near(graph, one) == {"x": 1, "y": 1, "z": 1}
        assert weight(graph, other, "z") == 2
    assert admin.execute("SELECT FROM entity e WHERE name ~ '^[AB]'").rowcount == 5


def test_writers_that_name_the_same_in_another_order_do_not_block_each_other(
    graph: Graph, writer: Writer, database: Database
) -> None:
    """Else two of them would wait for each other in a circle, and one would fail."""
    problems: list[BaseException] = []
    gate = threading.Barrier(4)

    def run(number: int) -> None:
        order = range(60) if number % 2 else range(59, -1, -1)
        given = [to(f"n{n}", f"n{(n + 7) % 60}") for n in order]
        gate.wait()
        try:
            for round_ in range(4):
                drafts = [Draft(id=f"w{number}-{k}", content=f"{round_}", relations=given[k::3]) for k in range(3)]
                list(writer.write_many("a", drafts))
                graph.put("a", [Named(name=one.target) for one in given[:9]], given[:9])
        except BaseException as problem:  # noqa: BLE001  told below
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert weight(graph, "n3", "n10") >= 4


def test_a_merge_waits_for_a_write_and_gives_up_in_time(
    graph: Graph, writer: Writer, hasty: Database, database: Database
) -> None:
    keep(writer, "m", to("Ada", "Byron"))
    with database.tenant("a") as session:
        record.put(session, "a", [], [to("Ada", "Babbage")])
        with pytest.raises(Busy):
            Graph(hasty).merge("a", "Ada", ["Babbage"])
    assert graph.merge("a", "Ada", ["Babbage"]) == 1


def test_what_is_rolled_back_leaves_nothing(graph: Graph, database: Database, admin: Admin) -> None:
    with database.tenant("a") as session:
        record.put(session, "a", [Named(name="Ada")], [to("Ada", "Byron")])
        session.rollback()
    assert everything(admin) == [[], [], []]
    assert names(graph) == []


def test_an_archived_memory_goes_on_supporting_what_it_said(graph: Graph, writer: Writer, admin: Admin) -> None:
    keep(writer, "m", to("Ada", "Byron"))
    admin.execute("UPDATE memory SET tier = 'archive', content = '', version = version + 1")
    assert near(graph, "Ada") == {"Byron": 1}
    admin.execute("UPDATE memory SET tier = 'warm', content = 'text of m', version = version + 1")
    assert near(graph, "Ada") == {"Byron": 1}


def test_an_end_put_off_brings_support_back_that_was_not_reaped(graph: Graph, writer: Writer) -> None:
    soon = datetime.now(UTC) + timedelta(days=1)
    keep(writer, "m", to("Ada", "Byron"), expires_at=datetime.now(UTC) - timedelta(days=1))
    assert names(graph) == []
    keep(writer, "m", to("Ada", "Byron"), expires_at=soon)
    assert names(graph) == ["Ada", "Byron"]


def test_entities_come_in_pages_by_name(graph: Graph) -> None:
    graph.put("a", [Named(name=f"Name {n:02}") for n in range(25)])
    seen: list[str] = []
    while page := graph.entities("a", after=seen[-1] if seen else None, limit=10):
        seen += [one.name for one in page]
    assert seen == [f"Name {n:02}" for n in range(25)]
