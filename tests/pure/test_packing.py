"""Texts into requests: closed on items, tokens or bytes, whichever is full first; what is refused is learned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Overloaded, Refused
from core.index.packing import LearnedLimits, packs, size_of
from core.index.vectors import embed_all
from core.model.tokens import estimated_tokens
from core.ports import EmbedLimits
from tests.contract.fake_embedder import FakeEmbedder

OPENAI = EmbedLimits(items=2048, tokens=300_000)


def named(texts: Sequence[str]) -> dict[str, str]:
    return {f"k{number}": text for number, text in enumerate(texts)}


def test_a_thousand_texts_of_400_tokens_close_a_request_on_tokens() -> None:
    made = list(packs(named(["word" * 400] * 1000), OPENAI))
    assert [len(pack) for pack in made] == [675, 325]  # a tenth of the room is left for what is misjudged


def test_2049_one_word_texts_close_a_request_on_items() -> None:
    assert [len(pack) for pack in packs(named(["word"] * 2049), OPENAI)] == [2048, 1]


def test_bytes_close_a_request_too() -> None:
    limits = EmbedLimits(items=100, bytes=1000)
    assert [len(pack) for pack in packs(named(["é" * 200] * 5), limits)] == [2, 2, 1]


def test_one_that_is_too_big_alone_goes_alone() -> None:
    limits = EmbedLimits(items=100, tokens=100)
    assert [list(pack) for pack in packs(named(["a", "x" * 5000, "b", "c"]), limits)] == [["k0"], ["k1"], ["k2", "k3"]]


@given(
    st.lists(st.text(max_size=60), max_size=60),
    st.builds(
        EmbedLimits,
        items=st.integers(1, 8),
        tokens=st.none() | st.integers(1, 40),
        bytes=st.none() | st.integers(1, 100),
    ),
)
def test_every_text_is_in_one_request_in_order_and_none_is_too_big(texts: list[str], limits: EmbedLimits) -> None:
    made = list(packs(named(texts), limits))
    assert [item for pack in made for item in pack.items()] == list(named(texts).items())
    assert all(len(pack) == 1 or size_of(pack).fits(limits) for pack in made)
    for pack, following in pairwise(made):
        first = dict([next(iter(following.items()))])
        assert not size_of(pack | first).fits(limits)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [("", 1, 1), ("word", 1, 1), ("a" * 400, 100, 100), ("昨日は会議室で予算を話した", 13, 13)],
)
def test_tokens_are_estimated_by_bytes_and_by_characters_beyond_ascii(text: str, least: int, most: int) -> None:
    assert least <= estimated_tokens(text) <= most


class Small(FakeEmbedder):
    """A server that takes 16 texts a call, and says so only by refusing."""

    def __init__(self) -> None:
        super().__init__(max_items=2048)
        self.sizes: list[int] = []
        self.before = self.refuse_more_than_16

    def refuse_more_than_16(self, texts: Sequence[str]) -> None:
        self.sizes.append(len(texts))
        if len(texts) > 16:
            raise Refused("too many inputs", reason="size")


def test_a_server_that_takes_16_a_call_is_found_out_once_and_remembered() -> None:
    server, learned = Small(), LearnedLimits()
    done = embed_all(server, named([f"word {number}" for number in range(256)]), learned)
    assert (len(done.vectors), done.refused, done.problem) == (256, {}, None)
    assert [size for size in server.sizes if size > 16] == [256, 128, 64, 32]
    server.sizes.clear()
    done = embed_all(server, named([f"other {number}" for number in range(64)]), learned)
    assert server.sizes == [16, 16, 16, 16]
    assert done.requests == 4


def test_one_text_that_is_too_long_teaches_nothing_about_requests() -> None:
    server, learned = FakeEmbedder(max_items=2048), LearnedLimits()

    def refuse_the_long_one(texts: Sequence[str]) -> None:
        if any(len(text) > 1000 for text in texts):
            raise Refused("too many tokens", reason="size")

    server.before = refuse_the_long_one
    many = [*(f"word {number}" for number in range(64)), "x" * 2000, *(f"other {number}" for number in range(63))]
    done = embed_all(server, named(many), learned)
    assert (len(done.vectors), list(done.refused)) == (127, ["k64"])
    assert learned.of(server.space.fingerprint, server.limits) == server.limits


def test_another_server_keeps_its_own_limits() -> None:
    learned = LearnedLimits()
    embed_all(Small(), named(["word"] * 64), learned)
    other = FakeEmbedder(model="other", max_items=100)
    embed_all(other, named(["word"] * 64), learned)
    assert other.calls == 1


def test_what_was_paid_for_before_a_failure_is_kept() -> None:
    embedder = FakeEmbedder(max_items=10)

    def fail_on_the_third(texts: Sequence[str]) -> None:
        if embedder.calls == 3:
            raise Overloaded("slow down", retry_after=5)

    embedder.before = fail_on_the_third
    done = embed_all(embedder, named([f"word {number}" for number in range(50)]), LearnedLimits())
    assert (len(done.vectors), done.requests) == (20, 3)
    assert isinstance(done.problem, Overloaded)
