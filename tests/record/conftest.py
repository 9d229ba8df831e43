"""Fixtures for tests of the record: one migrated database a test, and what works on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from core.model.space import EmbeddingSpace
from core.record.database import Database, Limits
from core.record.outbox import Outbox
from core.write.writer import Writer


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """The test's database, opened."""
    opened = Database(database_url, Limits(connections=12))
    opened.open()
    yield opened
    opened.close()


@pytest.fixture
def hasty(database_url: str) -> Iterator[Database]:
    """The same database, giving up a wait for a lock quickly."""
    opened = Database(database_url, Limits(lock=timedelta(milliseconds=100)))
    opened.open()
    yield opened
    opened.close()


@pytest.fixture
def admin(database_url: str) -> Iterator[psycopg.Connection[DictRow]]:
    """A superuser's connection, which sees every row and commits each statement."""
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as session:
        yield session


@pytest.fixture
def space() -> EmbeddingSpace:
    """An embedding space four numbers wide."""
    return EmbeddingSpace(provider="test", model="four", dimensions=4)


@pytest.fixture
def writer(database: Database, space: EmbeddingSpace) -> Writer:
    """A writer that gives the ids id-1, id-2, …"""
    numbers = itertools.count(1)
    return Writer(database, space, lambda: f"id-{next(numbers)}")


@pytest.fixture
def outbox(database: Database) -> Outbox:
    """The outbox with leases of a minute."""
    return Outbox(database, timedelta(seconds=60))
