"""Migrations: ordered, checksummed, all pending ones in one transaction under an advisory lock.

DDL is transactional in PostgreSQL, so a half-applied migration cannot happen: either every pending
file is in, with its line in `schema_migration`, or none is.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.resources import files
from typing import LiteralString

from core.errors import Misconfigured
from core.record.database import Limits, Session, connect
from core.record.failures import translated

_LOCK = 0x6D656D6F7279  # "memory" in ASCII
# Making an index over millions of rows takes minutes.
_LIMITS = Limits(statement=timedelta(minutes=30))
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


def migrate(url: str, limits: Limits = _LIMITS) -> list[int]:
    """Bring a database up to this release; returns the numbers applied now (none: it was current).

    A database that is current is only looked at. Two at once: the second waits, then finds nothing to
    do. Raises Misconfigured when the database was migrated by a later release or a file that was
    applied has changed since; Busy when another migration does not end in time; Unavailable when
    PostgreSQL cannot be reached.
    """
    with translated(), connect(url, limits) as session:
        if _is_there(session) and not _pending(_applied(session)):
            return []
        milliseconds = str(int(limits.statement.total_seconds() * 1000))
        session.execute("SELECT set_config('lock_timeout', %s, true)", (milliseconds,))
        session.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        session.execute(_LEDGER)
        pending = _pending(_applied(session))
        for migration in pending:
            session.execute(migration.statements)
            session.execute(
                "INSERT INTO schema_migration (number, name, checksum) VALUES (%s, %s, %s)",
                (migration.number, migration.name, migration.checksum),
            )
    return [migration.number for migration in pending]


def is_current(url: str, limits: Limits) -> bool:
    """Whether a database needs no migration. Raises as `migrate` does."""
    with translated(), connect(url, limits) as session:
        return not pending(session)


def pending(session: Session) -> list[str]:
    """Names of the migrations a database still lacks. Raises Misconfigured, as `migrate` does."""
    return [migration.name for migration in _pending(_applied(session) if _is_there(session) else {})]


def _is_there(session: Session) -> bool:
    row = session.execute("SELECT to_regclass('schema_migration') IS NOT NULL AS there").fetchone()
    return row is not None and bool(row["there"])


def _applied(session: Session) -> dict[int, str]:
    rows = session.execute("SELECT number, checksum FROM schema_migration").fetchall()
    return {int(row["number"]): str(row["checksum"]) for row in rows}


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
