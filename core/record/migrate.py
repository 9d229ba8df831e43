"""Migrations: ordered, checksummed, all pending ones in one transaction under an advisory lock.

DDL is transactional in PostgreSQL, so a half-applied migration cannot happen: either every pending
file is in, with its line in `schema_migration`, or none is.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import LiteralString

import psycopg

from core.errors import Misconfigured
from core.record.failures import translated

_LOCK = 0x6D656D6F7279  # "memory" in ASCII
_CONNECT_SECONDS = 10
_LEDGER: LiteralString = """
CREATE TABLE IF NOT EXISTS schema_migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of `migrations/`; its number is the first part of its name."""

    number: int
    name: str
    statements: LiteralString

    @property
    def checksum(self) -> str:
        """SHA-256 of the file's text."""
        return hashlib.sha256(self.statements.encode()).hexdigest()


@cache
def migrations() -> tuple[Migration, ...]:
    """Every migration of this release, in order."""
    folder = files("core.record").joinpath("migrations")
    found = [
        Migration(
            int(entry.name.partition("_")[0]),
            entry.name.removesuffix(".sql"),
            _trusted(entry.read_text(encoding="utf-8")),
        )
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    ]
    return tuple(sorted(found, key=lambda migration: migration.number))


def migrate(url: str) -> list[int]:
    """Bring a database up to this release; returns the numbers applied now (none: it was current).

    Two at once: the second waits, then finds nothing to do. Raises Misconfigured when the database
    was migrated by a later release or a file that was applied has changed since; Unavailable when
    PostgreSQL cannot be reached.
    """
    with translated(), psycopg.connect(url, connect_timeout=_CONNECT_SECONDS) as session:
        session.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        session.execute(_LEDGER)
        applied: dict[int, str] = dict(session.execute("SELECT number, checksum FROM schema_migration").fetchall())
        pending = _pending(applied)
        for migration in pending:
            session.execute(migration.statements)
            session.execute(
                "INSERT INTO schema_migration (number, name, checksum) VALUES (%s, %s, %s)",
                (migration.number, migration.name, migration.checksum),
            )
    return [migration.number for migration in pending]


def _trusted(text: str) -> LiteralString:
    # Our own packaged files are as trusted as a literal in the code.
    return text


def _pending(applied: dict[int, str]) -> list[Migration]:
    known = {migration.number: migration for migration in migrations()}
    unknown = sorted(set(applied) - set(known))
    if unknown:
        raise Misconfigured(f"the database has migrations this release does not know: {unknown}; upgrade the engine")
    changed = [known[number].name for number, checksum in applied.items() if known[number].checksum != checksum]
    if changed:
        raise Misconfigured(f"migrations were edited after they had been applied: {sorted(changed)}")
    return [migration for number, migration in sorted(known.items()) if number not in applied]
