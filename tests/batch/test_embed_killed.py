"""Promise 7 for the drain: kill -9 between any two steps; the next run ends in the same state, by itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from core.errors import Refused
from core.model.memory import Draft
from tests.batch.conftest import Parts, assemble
from tests.forks import ended

# Runs a drain that kills itself with -9 just after the named step of the indexer, or of the outbox.
VICTIM = """
import os, signal, sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from core.adapters.qdrant_edge import EdgeIndex
from core.index.indexer import Indexer
from core.record.outbox import Outbox
from tests.batch.conftest import assemble
step = sys.argv[3]
owner = next(one for one in (Outbox, Indexer, EdgeIndex) if hasattr(one, step))
original = getattr(owner, step)
def then_die(*arguments, **named):
    result = original(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(owner, step, then_die)
parts = assemble(sys.argv[1], Path(sys.argv[2]), timedelta(seconds=60))
parts.work = replace(parts.work, workers=1, batch=100)
parts.drain()
"""
STEPS = [
    *("claim", "_read", "stamps", "_sort", "_embed", "renew"),
    *("_keep_ours", "set_payload", "upsert", "delete", "_write", "finish", "_look_again"),
]


def killed_after(step: str, database_url: str, root: Path) -> None:
    assert ended(VICTIM, database_url, str(root), step) == -9


def leases_run_out(database_url: str) -> None:
    with psycopg.connect(database_url) as session:
        session.execute("UPDATE outbox SET lease_until = now() - interval '1 second' WHERE lease_until IS NOT NULL")


def prepared(parts: Parts) -> None:
    """Every kind of work at once: new, changed text, changed payload, deleted."""
    for name in ("text", "payload", "gone", "same"):
        parts.writer.write("t", Draft(id=name, content=f"first words of {name}"))
    parts.drain()
    parts.writer.update("t", "text", {"content": "other words"}, 1)
    parts.writer.update("t", "payload", {"importance": 0.9}, 1)
    parts.writer.delete("t", "gone")
    parts.writer.write("t", Draft(id="new", content="just written"))


@pytest.mark.parametrize("step", STEPS)
def test_a_drain_killed_after_any_step_is_resumed_by_the_next(database_url: str, tmp_path: Path, step: str) -> None:
    root = tmp_path / "vectors"
    parts = assemble(database_url, root, timedelta(seconds=60))
    prepared(parts)
    parts.index.close()
    killed_after(step, database_url, root)
    leases_run_out(database_url)
    after = assemble(database_url, root, timedelta(seconds=60))
    assert after.drain().set_aside_count == 0
    after.assert_in_step()
    assert after.drain().worked == 0
    after.index.close()
    after.database.close()
    parts.database.close()


def test_an_entry_that_kills_every_worker_is_set_aside_in_the_end(parts: Parts, database_url: str) -> None:
    parts.writer.write("t", Draft(id="killer", content="claimed and never ended"))
    for _ in range(5):
        assert parts.outbox.claim(parts.work.new_id(), 10, ["t"]) is not None
        leases_run_out(database_url)
    report = parts.drain()
    assert list(report.set_aside) == ["killer"]
    assert [one.memory_id for one in parts.outbox.list_set_aside("t", 10)] == ["killer"]


def test_workers_that_die_for_another_reason_set_nothing_aside(parts: Parts, database_url: str) -> None:
    """A crash loop of healthy entries: those that were there twice come one by one, and each can end well."""
    list(parts.writer.write_many("t", [Draft(id=f"m{n}", content=f"healthy {n}") for n in range(10)]))
    for died in range(6):
        claim = parts.outbox.claim(parts.work.new_id(), 10, ["t"])
        assert claim is not None
        assert len(claim.entries) == (10 if died < 2 else 1)
        leases_run_out(database_url)
    report = parts.drain()
    assert (report.embedded, report.set_aside_count) == (10, 0)
    parts.assert_in_step()


def test_what_was_set_aside_is_tried_again_on_demand_one_by_one_or_all(parts: Parts) -> None:
    def refuse(texts: Sequence[str]) -> None:
        bad = [index for index, text in enumerate(texts) if "bad" in text]
        if bad:
            raise Refused("not this one", index=bad[0])

    parts.embedder.before = refuse
    list(parts.writer.write_many("t", [Draft(id=f"m{n}", content=f"bad {n}") for n in range(3)]))
    assert parts.drain().set_aside_count == 3
    parts.embedder.before = lambda texts: None
    assert parts.drain().worked == 0
    assert parts.outbox.retry("t", ["m1", "unknown"]) == ["m1"]
    assert parts.outbox.retry("other") == []
    assert parts.drain().embedded == 1
    assert parts.outbox.retry("t") == ["m0", "m2"]
    parts.drain()
    parts.assert_in_step()


def test_what_was_set_aside_can_be_given_up_and_comes_back_when_it_changes(parts: Parts) -> None:
    def refuse(texts: Sequence[str]) -> None:
        raise Refused("not this one", index=0)

    list(parts.writer.write_many("t", [Draft(id=f"m{n}", content=f"bad {n}") for n in range(2)]))
    parts.embedder.before = refuse
    assert parts.drain().set_aside_count == 2
    parts.writer.write("t", Draft(id="waiting", content="not set aside"))
    assert parts.outbox.drop("t", ["m0", "waiting", "unknown"]) == ["m0"]
    assert parts.outbox.drop("other", ["m1"]) == []
    assert [(one.waiting, one.set_aside) for one in parts.outbox.backlog(["t"])] == [(1, 1)]
    parts.embedder.before = lambda texts: None
    parts.writer.write("t", Draft(id="m0", content="good now"))
    parts.outbox.retry("t")
    parts.drain()
    parts.assert_in_step()


def test_a_worker_whose_lease_ran_out_writes_nothing(parts: Parts, database_url: str) -> None:
    parts.writer.write("t", Draft(id="a", content="slow to embed"))
    parts.embedder.before = lambda texts: leases_run_out(database_url)
    report = parts.drain(records=1)
    assert (report.lost, report.embedded, parts.stamps()) == (1, 0, {})
    parts.embedder.before = lambda texts: None
    parts.drain()
    parts.assert_in_step()
