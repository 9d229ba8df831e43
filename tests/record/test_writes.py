"""Writing: what returns is committed, with its old version, its index work and its event."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow

from core.errors import Conflict, NotFound, Refused
from core.model.memory import Draft, Source
from core.model.space import EmbeddingSpace
from core.record import memories
from core.record.database import Database
from core.record.memories import Place
from core.write.writer import Kept, Writer

Admin = psycopg.Connection[DictRow]
FIRST = Draft(content="first", id="m", title="a title", tags=("x",), metadata={"n": 1}, labels={"k": "v"})


def rows(admin: Admin, statement: str) -> list[dict[str, Any]]:
    return admin.execute(statement.encode()).fetchall()


def everything(admin: Admin) -> dict[str, list[dict[str, Any]]]:
    tables = ("memory", "memory_version", "outbox", "event", "generation")
    return {table: rows(admin, f"SELECT to_jsonb(t) AS row FROM {table} t ORDER BY 1") for table in tables}


def test_what_a_write_returned_another_connection_sees(writer: Writer, admin: Admin) -> None:
    written = writer.write("a", Draft(content="kept"))
    assert (written.id, written.kept, written.version) == ("id-1", Kept.STORED, 1)
    assert rows(admin, "SELECT tenant, id, content, version FROM memory") == [
        {"tenant": "a", "id": "id-1", "content": "kept", "version": 1}
    ]


def test_what_was_written_is_read_back_as_given(writer: Writer, database: Database) -> None:
    writer.write("a", FIRST)
    with database.tenant("a") as session:
        memory = memories.fetch(session, "a", ["m"])["m"]
        assert memories.fetch_points(session, "a", [memory.embedding_id]) == {memory.embedding_id: memory}
    assert (memory.content, memory.title, memory.tags) == ("first", "a title", ("x",))
    assert (memory.metadata, memory.labels) == ({"n": 1}, {"k": "v"})


def test_the_same_id_with_the_same_values_changes_nothing(writer: Writer, admin: Admin) -> None:
    writer.write("a", FIRST)
    before = everything(admin)
    again = writer.write("a", FIRST)
    assert (again.kept, again.version) == (Kept.UNCHANGED, None)
    assert [item.kept for item in writer.write_many("a", [FIRST])] == [Kept.UNCHANGED]
    assert everything(admin) == before


def test_other_values_make_a_new_version_and_keep_the_old_one(writer: Writer, admin: Admin) -> None:
    writer.write("a", FIRST)
    written = writer.write("a", replace(FIRST, content="second"))
    assert (written.kept, written.version) == (Kept.STORED, 2)
    (old,) = rows(admin, "SELECT id, version, record FROM memory_version")
    assert (old["id"], old["version"], old["record"]["content"]) == ("m", 1, "first")
    assert rows(admin, "SELECT version, content FROM memory") == [{"version": 2, "content": "second"}]


def test_an_update_changes_the_named_fields_only(writer: Writer, database: Database) -> None:
    writer.write("a", FIRST)
    assert writer.update("a", "m", {"content": "second", "title": None}, expected_version=1).version == 2
    with database.tenant("a") as session:
        memory = memories.fetch(session, "a", ["m"])["m"]
    assert (memory.content, memory.title, memory.tags) == ("second", None, ("x",))


def test_an_update_to_the_same_values_changes_nothing(writer: Writer, admin: Admin) -> None:
    writer.write("a", FIRST)
    before = everything(admin)
    written = writer.update("a", "m", {"content": "first"}, expected_version=1)
    assert (written.kept, written.version) == (Kept.UNCHANGED, 1)
    assert everything(admin) == before


def test_an_update_of_another_version_is_told_the_current_one(writer: Writer, admin: Admin) -> None:
    writer.write("a", FIRST)
    writer.write("a", replace(FIRST, content="second"))
    before = everything(admin)
    with pytest.raises(Conflict) as problem:
        writer.update("a", "m", {"content": "third"}, expected_version=1)
    assert problem.value.current == 2
    assert everything(admin) == before


def test_an_update_of_what_is_not_there_is_not_found(writer: Writer) -> None:
    writer.write("a", FIRST)
    writer.delete("a", "m")
    for tenant, memory_id in (("a", "m"), ("a", "never"), ("nobody", "m")):
        with pytest.raises(NotFound):
            writer.update(tenant, memory_id, {"content": "x"}, expected_version=1)


def test_after_a_delete_no_reader_sees_the_memory(writer: Writer, database: Database) -> None:
    writer.write("a", FIRST)
    with database.tenant("a") as session:
        point = memories.fetch(session, "a", ["m"])["m"].embedding_id
    assert writer.delete("a", "m")
    with database.tenant("a") as session:
        assert memories.fetch(session, "a", ["m"]) == {}
        assert memories.fetch_points(session, "a", [point]) == {}
        assert memories.page(session, "a", Place(), None, 10) == []
        assert memories.count(session, "a") == 0
        wanted, unwanted = memories.fetch_to_index(session, "a", ["m"])
    assert (wanted, unwanted) == ({}, {"m": 2})
    assert not writer.delete("a", "m")


def test_versions_go_on_counting_when_a_deleted_id_is_written_again(writer: Writer, admin: Admin) -> None:
    writer.write("a", FIRST)
    writer.delete("a", "m")
    assert writer.write("a", FIRST).version == 3
    kinds = rows(admin, "SELECT kind, version FROM event ORDER BY seq")
    assert [(event["kind"], event["version"]) for event in kinds] == [
        ("memory.created", 1),
        ("memory.deleted", 2),
        ("memory.created", 3),
    ]


def test_the_outbox_holds_one_row_a_memory_and_its_seq_rises(writer: Writer, admin: Admin) -> None:
    seen = []
    for content in ("one", "two", "three"):
        writer.write("a", replace(FIRST, content=content))
        seen.extend(rows(admin, "SELECT tenant, generation, memory_id, seq, lane FROM outbox"))
    writer.delete("a", "m")
    seen.extend(rows(admin, "SELECT tenant, generation, memory_id, seq, lane FROM outbox"))
    same = {"tenant": "a", "generation": 1, "memory_id": "m", "lane": 0}
    assert seen == [{**same, "seq": seq} for seq in (1, 2, 3, 4)]


def test_a_write_its_work_and_its_event_are_one_transaction(writer: Writer, database: Database, admin: Admin) -> None:
    writer.write("a", FIRST)
    before = everything(admin)

    def change_and_fail() -> None:
        with database.tenant("a") as session:
            memories.store(session, "a", "m", replace(FIRST, content="second"))
            memories.store(session, "a", "n", replace(FIRST, id="n"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change_and_fail()
    assert everything(admin) == before
    writer.write("a", replace(FIRST, content="second"))
    (event,) = rows(admin, "SELECT xid::text AS xid FROM event WHERE version = 2")
    (memory,) = rows(admin, "SELECT xmin::text AS xid FROM memory")
    assert int(event["xid"]) % 2**32 == int(memory["xid"])


def test_one_of_a_hundred_holding_u0000_is_cleaned_and_all_are_stored(writer: Writer, admin: Admin) -> None:
    drafts = [Draft(content="be\x00fore" if n == 37 else f"number {n}", id=f"m{n:03}") for n in range(100)]
    results = list(writer.write_many("a", drafts))
    assert [result.number for result in results] == list(range(100))
    assert {result.kept for result in results} == {Kept.STORED}
    assert [result.number for result in results if result.cleaned] == [37]
    assert results[37].cleaned == ("content",)
    assert rows(admin, "SELECT content FROM memory WHERE id = 'm037'") == [{"content": "before"}]
    for table in ("memory", "outbox", "event"):
        assert rows(admin, f"SELECT count(*) AS n FROM {table}") == [{"n": 100}]


def test_blank_items_are_skipped_as_empty(writer: Writer, admin: Admin) -> None:
    drafts = [Draft(content="seen"), Draft(content=" \n\t\u200b"), Draft(content="", id="given")]
    results = list(writer.write_many("a", drafts))
    assert [result.kept for result in results] == [Kept.STORED, Kept.SKIPPED, Kept.SKIPPED]
    assert [(result.id, result.reason) for result in results[1:]] == [(None, "empty"), ("given", "empty")]
    assert rows(admin, "SELECT count(*) AS n FROM memory") == [{"n": 1}]


def test_of_one_id_twice_the_last_wins_and_both_are_reported(writer: Writer, admin: Admin) -> None:
    drafts = [FIRST, Draft(content="between", id="b"), replace(FIRST, content="last")]
    results = list(writer.write_many("a", drafts))
    assert [(result.id, result.kept) for result in results] == [
        ("m", Kept.SKIPPED),
        ("b", Kept.STORED),
        ("m", Kept.STORED),
    ]
    assert rows(admin, "SELECT content, version FROM memory WHERE id = 'm'") == [{"content": "last", "version": 1}]


def test_a_refused_item_leaves_its_neighbours(writer: Writer, admin: Admin) -> None:
    drafts = [Draft(content="one"), Draft(content="two", importance=7), Draft(content="three")]
    results = list(writer.write_many("a", drafts))
    assert [result.kept for result in results] == [Kept.STORED, Kept.REFUSED, Kept.STORED]
    assert "importance" in (results[1].reason or "")
    assert rows(admin, "SELECT content FROM memory ORDER BY id") == [{"content": "one"}, {"content": "three"}]


def test_an_item_that_is_no_draft_is_refused_and_leaves_its_neighbours(writer: Writer, admin: Admin) -> None:
    given: list[Any] = [Draft(content="a"), None, "text", Draft(content="b")]
    results = list(writer.write_many("t", given))
    assert [result.kept for result in results] == [Kept.STORED, Kept.REFUSED, Kept.REFUSED, Kept.STORED]


@pytest.mark.parametrize("path", ["x" * 4096, "".join(chr(0x4E00 + n * 37 % 20000) for n in range(1365))])
def test_the_longest_path_is_kept_and_found_by(writer: Writer, database: Database, path: str) -> None:
    source = Source(path=path, first_line=1, last_line=2)
    results = list(writer.write_many("t", [Draft(content="a", id="a", source=source), Draft(content="b", id="b")]))
    assert [result.kept for result in results] == [Kept.STORED, Kept.STORED]
    with database.tenant("t") as session:
        assert memories.ids_of_source(session, "t", "default", path) == ["a"]


def test_what_the_gate_lets_through_and_the_database_refuses_costs_that_item_alone(
    writer: Writer, admin: Admin
) -> None:
    admin.execute("ALTER TABLE memory ADD CONSTRAINT no_poison CHECK (content <> 'poison')")
    given = [Draft(content="a", id="a"), Draft(content="poison", id="p"), Draft(content="b", id="b")]
    results = {result.id: result for result in writer.write_many("t", given)}
    assert {name: result.kept for name, result in results.items()} == {
        "a": Kept.STORED,
        "p": Kept.REFUSED,
        "b": Kept.STORED,
    }
    assert "no_poison" in str(results["p"].reason)
    assert "poison'" not in str(results["p"].reason)


def test_a_refused_write_stores_nothing(writer: Writer, admin: Admin) -> None:
    with pytest.raises(Refused) as problem:
        writer.write("a", Draft(content="x", importance=2))
    assert problem.value.where == "importance"
    assert not any(everything(admin).values())


def test_the_first_write_registers_generation_one_live(writer: Writer, admin: Admin, space: EmbeddingSpace) -> None:
    writer.write("a", FIRST)
    assert rows(admin, "SELECT tenant, number, state, space, fingerprint FROM generation") == [
        {"tenant": "a", "number": 1, "state": "live", "space": space.as_dict(), "fingerprint": space.fingerprint}
    ]


def test_eight_first_writes_at_once_register_one_generation(
    database: Database, admin: Admin, space: EmbeddingSpace
) -> None:
    def first_write(number: int) -> Kept:
        writer = Writer(database, space, lambda: f"id-{number}")  # each knows of no tenant yet
        return writer.write("a", Draft(content=f"number {number}")).kept

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(first_write, range(8))) == [Kept.STORED] * 8
    assert rows(admin, "SELECT number, state FROM generation") == [{"number": 1, "state": "live"}]
    assert rows(admin, "SELECT count(*) AS n FROM outbox WHERE generation = 1") == [{"n": 8}]
