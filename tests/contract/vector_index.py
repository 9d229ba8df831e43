"""The words the contract of vector indexes is written in: points, questions, and what a filter means."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from hypothesis import strategies as st

from core.errors import BadAnswer, Conflict, NotFound
from core.model.memory import Memory, embedding_id
from core.model.point import Payload, Point, Stamp, Vector, as_rfc3339, label_value, payload_of
from core.model.query import Filters, Selection
from core.ports import VectorIndex

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
COLLECTION = "c.g1"
ONES: Vector = np.ones(4, dtype=np.float32)
HOSTILE_TAGS = ["food, spicy", "a|b", "it's", "x*", "back\\slash", "food", "x", "a"]
HOSTILE_TENANTS = [
    "a-b", "a_b", "A-B", "ab", "a b", "a.b", "a%b", "a/b", "a\\b", "a:b", "a|b", "a*b", "a?b", 'a"b', "a<b", "a@b",
    "a#b", "acme", "Acme", "acme/x", "acme/", "acme.g1", "acme.live", "..", ".", "-", "_", "_2d",
    "ünï", "u\u0308ni\u0308", "テナント",
]  # fmt: skip

# What random points carry, random questions ask, and random writers do.
MOMENTS = st.integers(-2, 2).map(lambda step: NOW + timedelta(microseconds=step))
TAGS = st.lists(st.sampled_from("abc"), max_size=3, unique=True).map(tuple)
LABELS = st.sampled_from([{}, {"a": "b=c"}, {"a=b": "c"}, {"a": "b=c", "a=b": "c"}])
FIELDS = st.fixed_dictionaries(
    {
        "tenant": st.sampled_from("tu"),
        "scope": st.sampled_from("ab"),
        "project": st.sampled_from(["a", "b", None]),
        "tags": TAGS,
        "labels": LABELS,
        "importance": st.sampled_from([0.0, 0.1, 0.3, 1.0]),
        "created_at": MOMENTS,
        "expires_at": st.none() | MOMENTS,
    }
)
FILTERS = st.builds(
    Filters,
    scope=st.sampled_from(["a", None]),
    project=st.sampled_from(["a", None]),
    tags_any=TAGS,
    tags_all=st.sampled_from([(), (), ("a",), ("a", "b")]),
    labels=st.sampled_from([{}, {}, {"a": "b=c"}, {"a=b": "c"}]),
    min_importance=st.sampled_from([None, 0.1, 0.3]),
    created_from=st.none() | MOMENTS,
    created_to=st.none() | MOMENTS,
)
Write = tuple[str, list[tuple[str, int, str]]]
WRITES: st.SearchStrategy[Write] = st.tuples(
    st.sampled_from(["upsert", "payload", "delete"]),
    st.lists(
        st.tuples(st.sampled_from("0123"), st.integers(1, 5), st.sampled_from("hi")),
        min_size=1,
        max_size=3,
        unique_by=lambda item: item[0],
    ),
)


def vec(*values: float) -> Vector:
    """A vector of these values."""
    return np.array(values, dtype=np.float32)


def payload(name: str = "m", version: int = 1, text_hash: str = "h", **fields: Any) -> Payload:
    """The payload of a memory called `name`, of tenant `t` unless told otherwise."""
    given: dict[str, Any] = {
        "tenant": "t", "id": name, "version": version, "content": "text", "scope": "default", "type": "fact",
        "importance": 0.5, "tier": "warm", "tags": (), "labels": {}, "metadata": {}, "created_at": NOW,
        "updated_at": NOW,
    }  # fmt: skip
    given.update(fields)
    memory = Memory(embedding_id=embedding_id(given["tenant"], name), **given)
    return payload_of(memory, text_hash)


def point(name: str = "m", version: int = 1, text_hash: str = "h", vector: Vector = ONES, **fields: Any) -> Point:
    """A point of a memory called `name`."""
    return Point(payload(name, version, text_hash, **fields), vector)


def key(name: str = "m", tenant: str = "t") -> uuid.UUID:
    """The id of that point."""
    return embedding_id(tenant, name)


def selection(filters: Filters | None = None, tenant: str = "t") -> Selection:
    """What a search at `NOW` asks for."""
    return Selection(tenant=tenant, filters=filters or Filters(), alive_at=NOW)


def found(index: VectorIndex, filters: Filters | None = None, tenant: str = "t", limit: int = 50) -> set[uuid.UUID]:
    """The ids a search near `ONES` finds."""
    return {hit.embedding_id for hit in index.search(COLLECTION, ONES, selection(filters, tenant), limit)}


def unit(vector: Vector, dimensions: int) -> Vector:
    """The vector at length one. Raises BadAnswer for what is none."""
    length = float(np.linalg.norm(vector.astype(np.float64)))
    if vector.shape != (dimensions,) or not np.isfinite(length) or not length:
        raise BadAnswer("not a vector of this collection")
    return (vector / length).astype(np.float32)


def meets(fields: Mapping[str, Any], asked: Selection) -> bool:
    """What a selection means, in plain words; times compare as they are written, all in UTC and of one length."""
    wanted, tags = asked.filters, set(fields["tags"])
    return (
        fields["tenant"] == asked.tenant
        and all(fields.get(name) == value for name, value in wanted.equalities.items())
        and (not wanted.tags_any or not tags.isdisjoint(wanted.tags_any))
        and tags.issuperset(wanted.tags_all)
        and {label_value(*pair) for pair in wanted.labels.items()} <= set(fields.get("labels", ()))
        and (wanted.min_importance is None or fields["importance"] >= wanted.min_importance)
        and (wanted.created_from is None or fields["created_at"] >= as_rfc3339(wanted.created_from))
        and (wanted.created_to is None or fields["created_at"] < as_rfc3339(wanted.created_to))
        and ("expires_at" not in fields or fields["expires_at"] > as_rfc3339(asked.alive_at))
    )


def after(stored: dict[uuid.UUID, Stamp], kind: str, items: list[tuple[str, int, str]]) -> dict[uuid.UUID, Stamp]:
    """What is stored after a write, by the rules of the port; items are of name, version and text hash."""
    left = dict(stored)
    for name, version, text_hash in items:
        old = stored.get(key(name))
        if kind == "upsert" and (old is None or old.version <= version):
            left[key(name)] = Stamp(version, text_hash)
        if kind == "payload" and old is not None and old.text_hash == text_hash and old.version < version:
            left[key(name)] = Stamp(version, text_hash)
        if kind == "delete" and old is not None and old.version <= version:
            del left[key(name)]
    return left


def refused(*calls: Callable[[], None]) -> list[bool]:
    """Make the calls at once; which of them were refused?"""
    start = threading.Barrier(len(calls))

    def one(call: Callable[[], None]) -> bool:
        start.wait(5)
        try:
            call()
        except (Conflict, NotFound):
            return True
        return False

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls, timeout=30))
