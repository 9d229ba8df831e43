"""PostgreSQL by URL: TLS, passwords, an owner who is no superuser; silent or refusing, an error in bounded time."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from core.errors import Busy, EngineError, Misconfigured, Refused, Unavailable
from core.model.memory import Draft
from core.model.space import EmbeddingSpace
from core.record import memories
from core.record.database import Database, Limits
from core.record.migrate import migrate
from core.write.writer import Writer
from tests.tcp_postgres import PASSWORD, TcpPostgres, TlsFront, tls_front

HASTY = Limits(statement=timedelta(seconds=1), connect=timedelta(seconds=2), lock=timedelta(milliseconds=200))
WRONG = uuid.uuid4().hex
SPACE = EmbeddingSpace(provider="test", model="four", dimensions=4)


@pytest.fixture
def owned(tcp_postgres_server: TcpPostgres) -> Iterator[str]:
    """Name of a fresh database of the owner."""
    name = f"kept_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(tcp_postgres_server.url(), autocommit=True) as session:
        session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield name
        session.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def front(tcp_postgres_server: TcpPostgres, tmp_path: Path) -> Iterator[TlsFront]:
    with tls_front(tcp_postgres_server.port, tmp_path) as front:
        yield front


def opened(url: str, limits: Limits = HASTY) -> Database:
    database = Database(url, limits)
    database.open()
    return database


def shown(error: BaseException) -> str:
    """All that a traceback of the error would show."""
    return "".join(traceback.format_exception(error))


def test_an_owner_who_is_no_superuser_migrates_writes_and_sees_one_tenant_at_a_time(
    tcp_postgres_server: TcpPostgres, owned: str
) -> None:
    url = tcp_postgres_server.url(database=owned)
    assert migrate(url)
    database = opened(url)
    writer = Writer(database, SPACE, lambda: "id-1")
    writer.write("a", Draft(content="of a"))
    writer.write("b", Draft(content="of b"))
    with database.tenant("a") as session:
        assert [memory.content for memory in memories.page(session, "a", memories.Place(), None, 9)] == ["of a"]
        assert session.execute("SELECT count(*) AS n FROM memory").fetchone() == {"n": 1}
    database.close()


def test_tls_with_an_authority_and_a_client_certificate_of_ones_own(
    tcp_postgres_server: TcpPostgres, owned: str, front: TlsFront
) -> None:
    migrate(tcp_postgres_server.url(database=owned))
    right = {"sslmode": "verify-full", "sslrootcert": str(front.authority)}
    certificate = {"sslcert": str(front.certificate), "sslkey": str(front.key)}
    database = opened(tcp_postgres_server.url(port=front.port, database=owned, **right, **certificate))
    with database.across() as session:
        assert session.pgconn.ssl_in_use
    database.close()
    for wrong in ({**right}, {"sslmode": "disable"}, {**certificate, "sslmode": "verify-full"}):
        database = opened(tcp_postgres_server.url(port=front.port, database=owned, **wrong))
        with pytest.raises(Unavailable), database.across():
            pass
        database.close()


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://owner:{PASSWORD}@localhost:port/kept",
        f"postgresql://owner:{PASSWORD}@local host/kept",
        f"postgresql://owner:{PASSWORD}@localhost/kept?no_such_option=1",
        f"owner:{PASSWORD}@localhost",
    ],
)
def test_a_url_that_cannot_be_used_is_misconfigured_and_its_password_stays_unsaid(url: str) -> None:
    with pytest.raises((Misconfigured, Unavailable)) as raised:
        migrate(url, HASTY)
    assert PASSWORD not in shown(raised.value)


def test_a_wrong_password_or_database_is_told_in_the_servers_words(tcp_postgres_server: TcpPostgres) -> None:
    with pytest.raises(Unavailable, match="password authentication failed") as raised:
        migrate(tcp_postgres_server.url(password=WRONG), HASTY)
    assert WRONG not in shown(raised.value)
    with pytest.raises(Unavailable, match="does not exist"):
        migrate(tcp_postgres_server.url(database="nowhere"), HASTY)


def test_a_server_that_falls_silent_ends_the_call_and_the_next_one_works(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own statement timeout cannot help: it does not run. The outcome of such a call is unknown."""
    monkeypatch.setattr("core.record.database.SILENCE", timedelta(seconds=0.5))
    database = opened(database_url)
    started = time.monotonic()
    with database.across() as session:
        row = session.execute("SELECT pg_backend_pid() AS pid").fetchone()
    assert row is not None
    os.kill(row["pid"], signal.SIGSTOP)
    try:
        with pytest.raises(Unavailable), database.across():
            pass
    finally:
        os.kill(row["pid"], signal.SIGCONT)
    assert time.monotonic() - started < 10
    with database.across() as session:
        assert session.execute("SELECT 1 AS one").fetchone() == {"one": 1}
    database.close()


def test_a_statement_that_takes_too_long_is_ended_by_the_server(database_url: str) -> None:
    database = opened(database_url, Limits(statement=timedelta(milliseconds=100)))
    with pytest.raises(Unavailable, match="statement timeout"), database.across() as session:
        session.execute("SELECT pg_sleep(30)")
    database.close()


def test_a_migration_behind_one_that_does_not_end_gives_up(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (0x6D656D6F7279,))
        with pytest.raises(Busy):
            migrate(empty_database_url, HASTY)


def test_a_current_database_is_opened_while_somebody_else_migrates(database_url: str) -> None:
    with psycopg.connect(database_url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (0x6D656D6F7279,))
        assert migrate(database_url, HASTY) == []


SQLSTATES: list[tuple[str, type[EngineError]]] = [
    ("40001", Busy),
    ("40P01", Busy),
    ("55P03", Busy),
    ("57014", Unavailable),
    ("57P01", Unavailable),
    ("53300", Unavailable),
    ("08006", Unavailable),
    ("25006", Unavailable),
    ("22003", Refused),
    ("23514", Refused),
    ("28000", Misconfigured),
    ("42501", Misconfigured),
    ("42P01", Misconfigured),
    ("3D000", Misconfigured),
]


@pytest.mark.parametrize(("state", "kind"), SQLSTATES)
def test_sqlstate_decides_which_error_it_is(database_url: str, state: str, kind: type[EngineError]) -> None:
    database = opened(database_url, Limits())
    with pytest.raises(kind) as raised, database.across() as session:
        session.execute(f"DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{state}'; END $$".encode())
    assert type(raised.value) is kind
    database.close()


def test_a_connection_ended_in_mid_call_is_unavailable_and_the_next_call_works(database_url: str) -> None:
    database = opened(database_url, Limits())
    with database.across() as session:
        row = session.execute("SELECT pg_backend_pid() AS pid").fetchone()
    assert row is not None

    def end() -> None:
        time.sleep(0.2)
        with psycopg.connect(database_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (row["pid"],))

    ending = threading.Thread(target=end)
    ending.start()
    with pytest.raises(Unavailable), database.across() as session:
        session.execute("SELECT pg_sleep(20)")
    ending.join()
    with database.across() as session:
        assert session.execute("SELECT 1 AS one").fetchone() == {"one": 1}
    database.close()
