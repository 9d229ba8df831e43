"""Times are UTC on the way out, whatever zone the environment, the server or the URL chooses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from core.model.memory import Draft
from core.model.space import EmbeddingSpace
from core.record import memories
from core.record.database import Database, Limits
from core.record.memories import Place
from core.write.writer import Writer

FAR = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
EARLY = datetime(1, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["Europe/Berlin", "Asia/Tokyo", "America/New_York"])
def elsewhere(request: pytest.FixtureRequest, database_url: str) -> Iterator[Database]:
    """The test's database, reached by a URL that chooses another zone."""
    opened = Database(f"{database_url}&options=-c%20TimeZone%3D{request.param}", Limits())
    opened.open()
    yield opened
    opened.close()


def test_the_ends_of_the_calendar_are_read_in_any_zone(elsewhere: Database, space: EmbeddingSpace) -> None:
    writer = Writer(elsewhere, space, lambda: "unused")
    writer.write("t", Draft(id="far", content="lasts", expires_at=FAR, created_at=EARLY))
    with elsewhere.tenant("t") as session:
        (memory,) = memories.page(session, "t", Place(), None, 10)
        assert memories.fetch(session, "t", ["far"])["far"] == memory
    assert (memory.expires_at, memory.created_at) == (FAR, EARLY)
    assert memory.updated_at.utcoffset() == EARLY.utcoffset()
