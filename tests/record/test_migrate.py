"""Migrations: once, in order, all or nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from core.errors import EngineError, Misconfigured
from core.record import migrate as module
from core.record.migrate import Migration, migrate, migrations


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as session:
        return session.execute(statement.encode()).fetchall()


def run(url: str, statement: str) -> None:
    with psycopg.connect(url) as session:
        session.execute(statement.encode())


def test_every_migration_is_applied_once_and_in_order(empty_database_url: str) -> None:
    numbers = [migration.number for migration in migrations()]
    assert numbers == sorted(set(numbers))
    assert migrate(empty_database_url) == numbers
    ledger = rows(empty_database_url, "SELECT number, name, checksum FROM schema_migration ORDER BY number")
    assert ledger == [(one.number, one.name, one.checksum) for one in migrations()]


def test_a_second_call_has_nothing_to_do(empty_database_url: str) -> None:
    migrate(empty_database_url)
    before = rows(empty_database_url, "SELECT * FROM schema_migration ORDER BY number")
    assert migrate(empty_database_url) == []
    assert rows(empty_database_url, "SELECT * FROM schema_migration ORDER BY number") == before


def test_of_two_at_once_one_migrates_and_both_end_well(empty_database_url: str) -> None:
    with ThreadPoolExecutor(2) as threads:
        applied = list(threads.map(migrate, [empty_database_url] * 2))
    assert sorted(applied) == [[], [migration.number for migration in migrations()]]


def test_a_migration_edited_after_it_was_applied_is_refused(database_url: str) -> None:
    run(database_url, "UPDATE schema_migration SET checksum = 'other' WHERE number = 2")
    with pytest.raises(Misconfigured, match="0002_memory"):
        migrate(database_url)


def test_a_database_of_a_later_release_is_refused(database_url: str) -> None:
    run(database_url, "INSERT INTO schema_migration (number, name, checksum) VALUES (9999, '9999_later', 'x')")
    with pytest.raises(Misconfigured, match="9999"):
        migrate(database_url)


def test_a_failing_migration_leaves_nothing_of_itself_and_those_before_it(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Migration(9999, "9999_broken", "CREATE TABLE half (one integer); SELECT 1 / 0;")
    known = (*migrations(), broken)
    monkeypatch.setattr(module, "migrations", lambda: known)
    with pytest.raises(EngineError):
        migrate(empty_database_url)
    assert rows(empty_database_url, "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace") == []


def test_a_failing_later_migration_leaves_the_database_as_it_was(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows(database_url, "SELECT * FROM schema_migration ORDER BY number")
    broken = Migration(9999, "9999_broken", "CREATE TABLE half (one integer); SELECT * FROM nowhere;")
    known = (*migrations(), broken)
    monkeypatch.setattr(module, "migrations", lambda: known)
    with pytest.raises(Misconfigured):
        migrate(database_url)
    assert rows(database_url, "SELECT * FROM schema_migration ORDER BY number") == before
    assert rows(database_url, "SELECT to_regclass('half')") == [(None,)]
