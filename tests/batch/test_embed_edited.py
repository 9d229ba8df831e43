"""A memory that is edited while slow workers hold what it was: in the end the index has the newest text."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from core.batch.embed import Portion, step
from core.model.memory import Draft, embedding_id
from tests.batch.conftest import Parts

TEXTS = {1: "green tea", 2: "black coffee"}


@pytest.mark.parametrize("held", [1, 2])
@pytest.mark.parametrize("overtaken", [True, False], ids=["its lease runs out", "it keeps its lease"])
def test_text_edited_to_v2_then_importance_to_v3_while_a_slow_worker_still_holds_v1_or_v2(
    parts: Parts, held: int, overtaken: bool
) -> None:
    holding, go_on = threading.Event(), threading.Event()

    def hold(texts: Sequence[str]) -> None:
        if texts == [TEXTS[held]] and not holding.is_set():
            holding.set()
            assert go_on.wait(20)

    parts.embedder.before = hold
    work = replace(parts.work, workers=1)
    all_of_it = Portion(tenant="t", records=100)
    parts.writer.write("t", Draft(id="m", content=TEXTS[1], importance=0.1))
    if held == 2:
        step(work, all_of_it)
        parts.writer.update("t", "m", {"content": TEXTS[2]}, 1)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(step, work, all_of_it)
        assert holding.wait(20)
        if held == 1:
            parts.writer.update("t", "m", {"content": TEXTS[2]}, 1)
        parts.writer.update("t", "m", {"importance": 0.9}, 2)
        if overtaken:
            with parts.database.across() as session:
                session.execute("UPDATE outbox SET lease_until = now() - interval '1 second'")
            if held == 1:  # a worker that embeds the same text waits for the one that does
                step(work, all_of_it)
        go_on.set()
        slow.result(20)
    parts.drain()
    parts.assert_in_step()
    point = embedding_id("t", "m")
    (collection,) = parts.index.collections()
    assert parts.stamps()[point].version == 3
    assert parts.index.payloads(collection, [point])[point]["importance"] == 0.9
    right = parts.embedder.embed([TEXTS[2]], "document").vectors[0]
    assert abs(parts.index.vectors(collection, [point])[point] - right).max() < 1e-6
