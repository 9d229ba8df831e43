"""Isolation: a tenant's transaction reaches its own rows, a worker's no content."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow

from core.errors import EngineError, Misconfigured, Refused
from core.model.graph import Relation
from core.model.memory import Draft
from core.record.database import APP_ROLE, Database
from core.write.writer import Writer

Admin = psycopg.Connection[DictRow]
GRAPH = ("entity", "entity_name", "relation")
TABLES = ("event", "generation", "memory", "memory_version", "outbox", *GRAPH)
COLUMN = {
    "event": "memory_id",
    "generation": "state",
    "memory": "content",
    "memory_version": "id",
    "outbox": "reason",
    "entity": "name",
    "entity_name": "name",
    "relation": "weight",
}


@pytest.fixture(autouse=True)
def two_tenants(writer: Writer) -> None:
    """Tenants `a` and `b`, each with rows in every table."""
    for tenant in ("a", "b"):
        for content in ("one", "two"):
            related = [Relation(source="Ada", target=f"Byron of {tenant}")]
            draft = Draft(content=f"{content} of {tenant}", id="m", title="t", metadata={"k": "v"}, relations=related)
            writer.write(tenant, draft)


def everything(admin: Admin) -> list[list[dict[str, Any]]]:
    return [admin.execute(f"SELECT to_jsonb(t) FROM {name} t ORDER BY 1".encode()).fetchall() for name in TABLES]


def run(database: Database, statement: str, tenant: str | None) -> tuple[int, list[dict[str, Any]]]:
    with database.across() if tenant is None else database.tenant(tenant) as session:
        cursor = session.execute(statement.encode())
        return cursor.rowcount, cursor.fetchall() if cursor.description else []


def test_every_table_with_a_tenant_has_row_security_enabled_and_forced(admin: Admin) -> None:
    tables = admin.execute(
        """SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity
           FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped
           WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
           ORDER BY c.relname"""
    ).fetchall()
    assert {row["relname"] for row in tables} >= set(TABLES)
    assert [row for row in tables if not (row["relrowsecurity"] and row["relforcerowsecurity"])] == []


def test_no_role_of_the_engine_reaches_a_partition_past_its_parent(admin: Admin) -> None:
    reachable = admin.execute(
        """SELECT c.relname, r.rolname FROM pg_class c CROSS JOIN pg_roles r
           WHERE c.relispartition AND c.relkind = 'r' AND r.rolname IN ('memory_app', 'memory_worker')
             AND has_any_column_privilege(r.oid, c.oid, 'SELECT, INSERT, UPDATE')"""
    ).fetchall()
    assert reachable == []


def test_the_roles_of_the_engine_cannot_step_around_row_security(admin: Admin) -> None:
    roles = admin.execute(
        """SELECT rolname, rolsuper, rolbypassrls FROM pg_roles
           WHERE rolname IN ('memory_app', 'memory_worker') ORDER BY rolname"""
    ).fetchall()
    assert roles == [
        {"rolname": "memory_app", "rolsuper": False, "rolbypassrls": False},
        {"rolname": "memory_worker", "rolsuper": False, "rolbypassrls": False},
    ]


@pytest.mark.parametrize("table", TABLES)
def test_without_a_tenant_the_app_role_sees_nothing(admin: Admin, table: str) -> None:
    for tenant in (None, ""):
        with admin.transaction():
            admin.execute("SELECT set_config('role', %s, true)", [APP_ROLE])
            if tenant is not None:
                admin.execute("SELECT set_config('memory.tenant', %s, true)", [tenant])
            assert admin.execute(f"SELECT * FROM {table}".encode()).fetchall() == []


@pytest.mark.parametrize("table", TABLES)
def test_a_query_that_forgets_its_tenant_sees_its_own_rows_only(database: Database, table: str) -> None:
    _, found = run(database, f"SELECT tenant FROM {table}", "a")
    assert {row["tenant"] for row in found} == {"a"}
    assert run(database, f"SELECT tenant FROM {table} WHERE tenant = 'b'", "a")[1] == []


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "change", ["UPDATE {0} SET {1} = {1} WHERE tenant = 'b'", "DELETE FROM {0} WHERE tenant = 'b'"]
)
def test_a_tenant_changes_and_deletes_no_row_of_another(
    database: Database, admin: Admin, table: str, change: str
) -> None:
    before = everything(admin)
    try:
        touched, _ = run(database, change.format(table, COLUMN[table]), "a")
    except Misconfigured:
        touched = 0  # the role has no such right at all
    assert touched == 0
    assert everything(admin) == before


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO memory_version (tenant, id, version, record) VALUES ('b', 'x', 9, '{}')",
        "INSERT INTO outbox (tenant, generation, memory_id, lane) VALUES ('b', 1, 'x', 0)",
        "INSERT INTO event (tenant, kind, memory_id, version) VALUES ('b', 'memory.created', 'x', 1)",
        "UPDATE memory SET tenant = 'b', id = 'x' WHERE tenant = 'a'",
        "SELECT enqueue('b', ARRAY['x'], 0::smallint)",
        "INSERT INTO entity (tenant, id, folded, name) VALUES ('b', gen_random_uuid(), 'x', 'x')",
        "INSERT INTO entity_name (tenant, folded, entity, name) VALUES ('b', 'x', gen_random_uuid(), 'x')",
        """INSERT INTO relation (tenant, source, target, type, memory_id, weight, told)
           VALUES ('b', gen_random_uuid(), gen_random_uuid(), 't', '', 1, true)""",
        """INSERT INTO generation (tenant, number, index_group, space, fingerprint, state)
           VALUES ('b', 9, 'g', '{}', 'f', 'retiring')""",
    ],
)
def test_a_tenant_puts_no_row_under_another(database: Database, admin: Admin, statement: str) -> None:
    before = everything(admin)
    with pytest.raises(EngineError, match=r"42501|ME001"):
        run(database, statement, "a")
    assert everything(admin) == before


@pytest.mark.parametrize("column", ["content", "title", "metadata", "subject", "labels", "tags", "source", "*"])
def test_a_worker_cannot_read_what_memories_say(database: Database, column: str) -> None:
    with pytest.raises(Misconfigured, match="42501"):
        run(database, f"SELECT {column} FROM memory", None)


def test_a_worker_cannot_read_old_versions(database: Database) -> None:
    with pytest.raises(Misconfigured, match="42501"):
        run(database, "SELECT version FROM memory_version", None)


def test_a_worker_cannot_read_the_key_of_hashes(database: Database) -> None:
    with pytest.raises(Misconfigured, match="42501"):
        run(database, "SELECT hash_key FROM engine", None)


@pytest.mark.parametrize("statement", ["UPDATE memory SET version = 9", "DELETE FROM memory", "DELETE FROM outbox"])
def test_a_worker_cannot_change_memories_nor_drop_work(database: Database, statement: str) -> None:
    with pytest.raises(Misconfigured, match="42501"):
        run(database, statement, None)


def test_a_worker_counts_over_all_tenants(database: Database) -> None:
    _, found = run(database, "SELECT tenant, count(*) AS n FROM memory GROUP BY tenant ORDER BY tenant", None)
    assert found == [{"tenant": "a", "n": 1}, {"tenant": "b", "n": 1}]


def test_a_blank_tenant_is_refused(database: Database, writer: Writer) -> None:
    with pytest.raises(Refused) as problem:
        run(database, "SELECT 1", "")
    assert problem.value.where == "tenant"
    with pytest.raises(Refused):
        writer.write(" ", Draft(content="x"))


def test_nothing_of_a_transaction_is_left_on_its_connection(database: Database) -> None:
    run(database, "SELECT 1", "a")
    with database._pool.connection() as session:
        left = session.execute("SELECT current_setting('memory.tenant', true) AS t, current_user = session_user AS s")
        assert left.fetchall() in ([{"t": "", "s": True}], [{"t": None, "s": True}])
