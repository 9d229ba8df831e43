"""Connections to the record, and the two kinds of transaction that run on them.

Every transaction takes an ordinary role and its own time limits by `set_config(…, is_local)`: nothing
of a session is left behind, so a pooler in transaction mode may stand in between.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import Connection
from psycopg.abc import PQGen
from psycopg.rows import DictRow, dict_row, tuple_row
from psycopg_pool import ConnectionPool

from core.errors import Refused
from core.record.failures import translated
from core.record.queries import query

RV = TypeVar("RV")
Row = dict[str, Any]
WAIT_INTERVAL = 0.1  # psycopg's own: how often a wait looks for an interrupt
Session = Connection[DictRow]

APP_ROLE = "memory_app"
WORKER_ROLE = "memory_worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Time limits of a transaction's statements and lock waits, and of waiting for a connection."""

    statement: timedelta = timedelta(seconds=30)
    lock: timedelta = timedelta(seconds=5)
    connect: timedelta = timedelta(seconds=10)
    connections: int = 8


# A server's own time limits end a statement; this much later the connection is given up, because the server,
# or the network to it, says nothing at all.
SILENCE = timedelta(seconds=5)
KEEPALIVE = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 5, "keepalives_count": 3}


class BoundedConnection(Connection[DictRow]):
    """A connection that waits for its server only so long: `patience` seconds for an answer, then it is closed."""

    patience: float | None = None

    def wait(self, gen: PQGen[RV], interval: float = WAIT_INTERVAL, timeout: float | None = None) -> RV:
        """As psycopg's, bounded. Raises OperationalError when the server stays silent; the outcome is unknown."""
        bound = self.patience if timeout is None else timeout
        started = time.monotonic()
        try:
            return super().wait(gen, interval=interval, timeout=bound)
        except psycopg.Error:
            if timeout is None and bound is not None and time.monotonic() - started >= bound:
                self.pgconn.finish()
                raise psycopg.OperationalError("the server does not answer") from None
            raise


def connect(url: str, limits: Limits) -> BoundedConnection:
    """A connection of its own, bounded like those of the pool."""
    session = BoundedConnection.connect(url, row_factory=dict_row, **_options(limits))
    session.patience = _patience(limits)
    return session


class Database:
    """A pool of connections to one database. Thread-safe; close it once."""

    def __init__(self, url: str, limits: Limits) -> None:
        self._limits = limits
        self._pool: ConnectionPool[BoundedConnection] = ConnectionPool(
            url,
            connection_class=BoundedConnection,
            kwargs={"row_factory": dict_row, **_options(limits)},
            configure=partial(_bound, _patience(limits)),
            min_size=0,
            max_size=limits.connections,
            timeout=limits.connect.total_seconds(),
            open=False,
        )

    def open(self) -> None:
        """Start the pool; connections are made when they are first asked for."""
        self._pool.open()

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    @contextmanager
    def tenant(self, tenant: str) -> Iterator[Session]:
        """A transaction that sees and changes one tenant's rows only; committed when the block ends well.

        Raises Refused for a blank tenant, Unavailable or Busy (worth another try), Misconfigured.
        """
        if not tenant:
            raise Refused("a tenant is needed", where="tenant")
        with self._transaction(APP_ROLE, tenant) as session:
            yield session

    @contextmanager
    def across(self) -> Iterator[Session]:
        """A transaction over all tenants that can read ids and numbers, and no content."""
        with self._transaction(WORKER_ROLE, "") as session:
            yield session

    @contextmanager
    def _transaction(self, role: str, tenant: str) -> Iterator[Session]:
        with translated(), self._pool.connection() as session:
            session.execute(
                query("begin"),
                {
                    "role": role,
                    "tenant": tenant,
                    "statement_timeout": _milliseconds(self._limits.statement),
                    "lock_timeout": _milliseconds(self._limits.lock),
                },
            )
            yield session


def tuples(session: Session, name: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """All rows of a named query as tuples, in the order of its columns.

    For answers of hundreds of rows: dictionaries are made in Python, row by row, and tuples by the driver.
    """
    with session.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(query(name), values).fetchall()


def _milliseconds(span: timedelta) -> str:
    return str(int(span.total_seconds() * 1000))


def _options(limits: Limits) -> dict[str, Any]:
    # Server-side prepared statements are session state, which a transaction pooler loses.
    return {"prepare_threshold": None, "connect_timeout": int(limits.connect.total_seconds()), **KEEPALIVE}


def _patience(limits: Limits) -> float:
    return (limits.statement + SILENCE).total_seconds()


def _bound(patience: float, session: BoundedConnection) -> None:
    session.patience = patience
