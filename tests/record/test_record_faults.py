"""The record over a network that is slow, cuts in the middle, is gone, and comes back."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from core.errors import Transient, Unavailable
from core.model.memory import Draft
from core.model.space import EmbeddingSpace
from core.record import memories
from core.record.database import Database, Limits
from core.record.migrate import migrate
from core.write.writer import Kept, Writer
from tests.tcp_postgres import TcpPostgres
from tests.tcp_proxy import TcpProxy, tcp_proxy

HASTY = Limits(statement=timedelta(seconds=1), connect=timedelta(seconds=2))
SPACE = EmbeddingSpace(provider="test", model="four", dimensions=4)


@pytest.fixture
def proxy(tcp_postgres_server: TcpPostgres) -> Iterator[TcpProxy]:
    with tcp_proxy(tcp_postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
def far(tcp_postgres_server: TcpPostgres, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A migrated database, reached through the proxy by a client with little patience."""
    monkeypatch.setattr("core.record.database.SILENCE", timedelta(seconds=0.5))
    name = f"far_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(tcp_postgres_server.url(), autocommit=True) as session:
        session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        migrate(tcp_postgres_server.url(database=name))
        opened = Database(tcp_postgres_server.url(port=proxy.port, database=name), HASTY)
        opened.open()
        yield opened
        opened.close()
        session.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def writer(far: Database) -> Writer:
    writer = Writer(far, SPACE, lambda: uuid.uuid4().hex)
    writer.write("t", Draft(id="first", content="before the trouble"))
    return writer


def contents(database: Database) -> list[str]:
    with database.tenant("t") as session:
        return [memory.content for memory in memories.page(session, "t", memories.Place(), None, 5000)]


def test_a_network_that_is_too_slow_ends_the_call_in_bounded_time(
    writer: Writer, far: Database, proxy: TcpProxy
) -> None:
    proxy.delay(30)
    started = time.monotonic()
    with pytest.raises(Unavailable):
        writer.write("t", Draft(content="lost in delay"))
    assert time.monotonic() - started < 15
    proxy.cut()
    proxy.restore()
    assert writer.write("t", Draft(id="second", content="after it")).kept is Kept.STORED
    assert "after it" in contents(far)


def test_a_read_cut_in_the_middle_of_its_answer_raises_and_gives_no_part_of_it(
    writer: Writer, far: Database, proxy: TcpProxy
) -> None:
    list(writer.write_many("t", [Draft(content=f"{number} " + "x" * 1000) for number in range(500)]))
    proxy.cut_after(100_000)
    with pytest.raises(Unavailable):
        contents(far)
    assert len(contents(far)) == 501


def test_a_bulk_cut_in_the_middle_leaves_whole_pieces_and_can_be_repeated(
    writer: Writer, far: Database, proxy: TcpProxy
) -> None:
    drafts = [Draft(id=f"m{number}", content=f"{number} " + "x" * 1000) for number in range(3000)]
    proxy.cut_after(2_700_000, "request")
    kept = []
    with pytest.raises(Unavailable):
        kept.extend(writer.write_many("t", drafts))
    assert len(contents(far)) == 2001  # the first piece, and what was there
    again = [written.kept for written in writer.write_many("t", drafts)]
    assert (again.count(Kept.UNCHANGED), again.count(Kept.STORED)) == (2000, 1000)


def test_a_write_whose_answer_was_lost_can_be_repeated_by_its_id(
    writer: Writer, far: Database, proxy: TcpProxy
) -> None:
    """Whether it was committed nobody knows: the same id again makes it one memory either way."""
    for count in range(0, 1200, 60):
        draft = Draft(id=f"w{count}", content=f"cut after {count} bytes of answer")
        proxy.cut_after(count or 1)
        try:
            writer.write("t", draft)
        except Transient:
            proxy.restore()
            assert writer.write("t", draft).kept in (Kept.STORED, Kept.UNCHANGED)
        proxy.restore()
    assert len(contents(far)) == 21


def test_gone_and_back_again(writer: Writer, far: Database, proxy: TcpProxy) -> None:
    proxy.refuse()
    with pytest.raises(Unavailable):
        writer.write("t", Draft(content="nowhere to go"))
    proxy.restore()
    deadline = time.monotonic() + 20  # the pool tries again by itself
    while time.monotonic() < deadline:
        try:
            writer.write("t", Draft(id="back", content="back"))
            break
        except Unavailable:
            time.sleep(0.1)
    assert "back" in contents(far)
