"""The block of text for a prompt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from core.errors import Refused
from core.model.memory import Memory, embedding_id
from core.model.query import Answer, Found, Passage
from core.read.context import context_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def memory(number: int, content: str) -> Memory:
    return Memory(
        tenant="t", id=f"m{number}", embedding_id=embedding_id("t", f"m{number}"), version=1, content=content,
        scope="default", type="turn", importance=0.5, tier="warm", tags=(), labels={}, metadata={}, speaker="Ana",
        created_at=START + timedelta(days=number), updated_at=START,
    )  # fmt: skip


def answer(*contents: str) -> Answer:
    found = [Found(memory=memory(9 - n, text), score=1 - n / 10) for n, text in enumerate(contents)]
    return Answer(found=tuple(found), generation=1, degraded="why")


def test_it_holds_sources_once_each_within_the_budget_and_says_what_was_left_out() -> None:
    made = context_of(answer("green tea", "Green  tea", "black coffee", "x" * 4000), 60)
    assert [one.id for one in made.memories] == ["m9", "m7"]
    assert "[m9, Ana, 2026-01-10] green tea" in made.text
    assert made.left_out == 1
    assert made.tokens <= 60
    assert made.degraded == "why"
    assert made.message("user") == {"role": "user", "content": made.text}


def test_the_oldest_can_come_first() -> None:
    assert [one.id for one in context_of(answer("a", "b", "c"), 500, "oldest").memories] == ["m7", "m8", "m9"]


def test_passages_stay_together() -> None:
    turns = (memory(1, "one"), memory(2, "two"))
    passage = Passage(memories=turns, hits=frozenset({"m2"}), score=1.0)
    found = (Found(memory=turns[1], score=1.0),)
    made = context_of(Answer(found=found, generation=1, passages=(passage,)), 500)
    assert made.memories == turns


def test_nothing_found_is_an_empty_block_and_no_budget_is_refused() -> None:
    assert context_of(Answer(found=(), generation=1), 10).text == ""
    with pytest.raises(Refused):
        context_of(answer("a"), 0)
