"""Embedding spaces: what names them, and where a long text is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.model.space import EmbeddingSpace
from core.model.tokens import estimated_tokens

SPACE = EmbeddingSpace(provider="p", model="m", dimensions=4)
CHANGES = [
    {"provider": "q"}, {"endpoint": "https://host"}, {"model": "n"}, {"revision": "2"}, {"dimensions": 8},
    {"normalised": False}, {"template": "{content}"}, {"document_prefix": "d: "}, {"query_prefix": "q: "},
    {"max_characters": 10}, {"max_tokens": 100},
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_whatever_decides_a_vector_decides_the_fingerprint(change: dict[str, object]) -> None:
    other = replace(SPACE, **change)  # type: ignore[arg-type]
    assert other.fingerprint != SPACE.fingerprint
    assert EmbeddingSpace(**other.as_dict()) == other


def test_the_name_of_a_space_made_before_is_kept() -> None:
    """Generations in people's databases carry it: a new field must not rename what has none of it."""
    assert "max_tokens" not in SPACE.as_dict()
    assert SPACE.fingerprint == "25b2f918ea11ab188bfcd74cda50a871"


@given(st.text(max_size=300), st.integers(1, 50))
def test_a_long_text_is_cut_where_the_tokens_end_and_always_there(text: str, tokens: int) -> None:
    space = replace(SPACE, max_tokens=tokens)
    cut = space.document_text(None, text)
    assert text.startswith(cut)
    assert estimated_tokens(cut) <= tokens or len(cut) == 1
    assert space.cuts(None, text) == (len(cut) < len(text))
    if len(cut) < len(text):
        assert estimated_tokens(text[: len(cut) + 1]) > tokens
    assert space.document_text(None, cut) == cut


def test_prefixes_are_not_counted_and_never_cut() -> None:
    space = replace(SPACE, document_prefix="passage: ", query_prefix="query: ", max_characters=4)
    assert space.document_text("title", "content") == "passage: titl"
    assert space.query_text("question") == "query: ques"
    assert space.cuts(None, "12345")
    assert not space.cuts(None, "1234")
