"""Vectors kept a short while in memory: whose, for how long, and how many."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np

from core.index.recent import KEEP_SECONDS, OVERHEAD, RecentVectors
from core.model.generation import Generation, GenerationState
from core.model.point import Vector
from core.model.space import EmbeddingSpace

SPACE = EmbeddingSpace(provider="p", model="m", dimensions=4)
ONE = OVERHEAD + 16


def vector(number: float) -> Vector:
    return np.full(4, number, dtype=np.float32)


def clocked(room: int) -> tuple[RecentVectors, list[float]]:
    now = [0.0]
    return RecentVectors(room, lambda: now[0]), now


def test_a_vector_is_given_to_its_own_tenant_space_and_kind_alone() -> None:
    recent, _ = clocked(10 * ONE)
    recent.keep("document", "t", SPACE, {"h": vector(1)})
    ours = Generation(tenant="t", number=3, index_group="g", space=SPACE, state=GenerationState.LIVE)
    assert recent.vectors_of_texts(ours, ["h", "other"])["h"].tolist() == [1, 1, 1, 1]
    assert recent.vectors_of_texts(replace(ours, tenant="u"), ["h"]) == {}
    assert recent.vectors_of_texts(replace(ours, space=replace(SPACE, model="n")), ["h"]) == {}
    assert recent.found("query", "t", SPACE, ["h"]) == {}


def test_room_is_bounded_and_what_is_used_least_goes_first() -> None:
    recent, _ = clocked(3 * ONE)
    recent.keep("document", "t", SPACE, {name: vector(1) for name in "abc"})
    recent.found("document", "t", SPACE, ["a"])
    recent.keep("document", "t", SPACE, {"d": vector(1), "a": vector(2)})
    assert set(recent.found("document", "t", SPACE, list("abcd"))) == {"a", "c", "d"}
    assert recent.bytes == 3 * ONE


def test_nothing_is_kept_longer_than_an_hour() -> None:
    recent, now = clocked(3 * ONE)
    recent.keep("document", "t", SPACE, {"a": vector(1)})
    now[0] = KEEP_SECONDS + 1
    assert recent.found("document", "t", SPACE, ["a"]) == {}
    assert recent.bytes == 0


def test_without_room_nothing_is_kept() -> None:
    recent, _ = clocked(0)
    recent.keep("document", "t", SPACE, {"a": vector(1)})
    assert recent.found("document", "t", SPACE, ["a"]) == {}


def test_a_row_does_not_keep_the_whole_answer() -> None:
    recent, _ = clocked(3 * ONE)
    answer = np.ones((1000, 4), dtype=np.float32)
    recent.keep("document", "t", SPACE, {"a": answer[7]})
    assert recent.found("document", "t", SPACE, ["a"])["a"].base is None


def test_threads_keep_the_count_right() -> None:
    recent, _ = clocked(50 * ONE)

    def keep(worker: int) -> None:
        for number in range(300):
            recent.keep("document", "t", SPACE, {str((worker * 31 + number) % 97): vector(number)})

    threads = [threading.Thread(target=keep, args=(worker,)) for worker in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert recent.bytes == 50 * ONE
