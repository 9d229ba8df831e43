"""Content of memories is in no log, report, reason or error, whatever fails on the way to the index."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence

import psycopg
import pytest

from core.errors import BadAnswer, EngineError, Refused, Unavailable
from core.model.memory import Draft
from tests.batch.conftest import Parts

MARKER = "Ana's diagnosis 4711"


def refuse(texts: Sequence[str]) -> None:
    raise Refused("the provider does not take this text", index=0)


def fail(texts: Sequence[str]) -> None:
    raise Unavailable("the provider is out of reach")


def answer_badly(texts: Sequence[str]) -> None:
    raise BadAnswer("one row is no vector", index=0)


@pytest.mark.parametrize("trouble", [refuse, fail, answer_badly])
def test_a_drain_in_trouble_says_nothing_of_what_memories_say(
    parts: Parts, caplog: pytest.LogCaptureFixture, trouble: Callable[[Sequence[str]], None]
) -> None:
    caplog.set_level(logging.DEBUG)
    list(parts.writer.write_many("t", [Draft(content=f"{MARKER} {n}", title=MARKER, tags=(MARKER,)) for n in range(3)]))
    parts.embedder.before = trouble
    report = parts.drain()
    aside = parts.outbox.list_set_aside("t", 10)
    assert report.set_aside_count or report.postponed
    assert MARKER not in f"{report} {aside} {parts.outbox.backlog()}"
    assert MARKER not in caplog.text


def test_a_write_the_database_refuses_quotes_nothing(
    parts: Parts, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with psycopg.connect(database_url) as admin:
        admin.execute("ALTER TABLE memory ADD CONSTRAINT never CHECK (length(content) < 3)")
    with pytest.raises(EngineError) as raised:
        parts.writer.write("t", Draft(content=MARKER))
    assert MARKER not in "".join(traceback.format_exception(raised.value))
    results = list(parts.writer.write_many("t", [Draft(content=MARKER), Draft(content="ok")]))
    assert MARKER not in str(results)
    assert MARKER not in caplog.text
