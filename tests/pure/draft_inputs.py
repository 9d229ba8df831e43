"""Drafts to put through the gate, and what comes out or is refused."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import strategies as st

from core.errors import Refused
from core.model.memory import Draft
from core.write.gate import admit, is_blank

TENANT = "acme"
ANY_TEXT = st.text(alphabet=st.characters(codec=None, exclude_categories=()))
SEEN = st.text(min_size=1, max_size=20).filter(lambda text: not is_blank(text))


def draft(**changes: Any) -> Draft:
    return Draft(**{"content": "Ana prefers green tea", **changes})


def refusal(**changes: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        admit(TENANT, draft(**changes))
    return caught.value


def admitted(**changes: Any) -> Draft:
    return admit(TENANT, draft(**changes)).draft


NAMES = ["scope", "project", "agent", "session", "speaker", "role", "type", "subject"]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=10,
)
DRAFTS = st.builds(
    Draft,
    content=ANY_TEXT,
    id=st.none() | ANY_TEXT,
    session=st.none() | ANY_TEXT,
    title=st.none() | ANY_TEXT,
    position=st.none() | st.integers(),
    tags=st.lists(ANY_TEXT, max_size=4),
    labels=st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=2),
    metadata=st.dictionaries(ANY_TEXT, JSON_VALUES, max_size=3),
    importance=st.floats(),
    expires_at=st.none() | st.datetimes(timezones=st.none() | st.just(timezone(timedelta(hours=9)))),
)
SEEN_DRAFTS = st.builds(
    Draft,
    content=ANY_TEXT.map(lambda text: f"x{text}"),
    session=ANY_TEXT.map(lambda text: f"x{text}"[:100]),
    title=st.none() | ANY_TEXT,
    tags=st.lists(ANY_TEXT.map(lambda text: f"x{text}"[:50]), max_size=4),
    metadata=st.dictionaries(ANY_TEXT, JSON_VALUES, max_size=3),
    importance=st.floats(0, 1),
    created_at=st.none() | st.datetimes(min_value=datetime(2, 1, 1), timezones=st.none() | st.timezones()),
)
