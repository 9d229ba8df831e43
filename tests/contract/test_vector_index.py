"""What every vector index does: guarded writes, filters that widen nothing, aliases that compare and set."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.adapters.qdrant_edge import EdgeIndex
from core.errors import BadAnswer, Conflict, NotFound
from core.model.memory import Memory, embedding_id
from core.model.names import alias_name, collection_name, index_group
from core.model.point import Payload, Point, Stamp, Vector, payload_of
from core.model.query import Filters, Selection
from core.model.version import CEILING, EPOCH_UNIT
from core.ports import VectorIndex

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOSTILE_TAGS = ["food, spicy", "a|b", "it's", "x*", "back\\slash", "food", "x", "a"]
HOSTILE_TENANTS = [
    "a-b",
    "a_b",
    "A-B",
    "acme",
    "acme/x",
    "..",
    ".",
    "ünï",
    "u\u0308nï",
    "a b",
    "a.b",
    "a%b",
    "テナント",
]
ONES: Vector = np.ones(4, dtype=np.float32)


@pytest.fixture(params=["edge"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorIndex]:
    opened = EdgeIndex(tmp_path / "vectors", wait=timedelta(seconds=5))
    opened.create("c.g1", 4)
    yield opened
    opened.close()


def payload(name: str = "m", version: int = 1, text_hash: str = "h", **fields: Any) -> Payload:
    given: dict[str, Any] = {
        "tenant": "t", "id": name, "version": version, "content": "text", "scope": "default", "type": "fact",
        "importance": 0.5, "tier": "warm", "tags": (), "labels": {}, "metadata": {}, "created_at": NOW,
        "updated_at": NOW,
    }  # fmt: skip
    given.update(fields)
    memory = Memory(embedding_id=embedding_id(given["tenant"], name), **given)
    return payload_of(memory, text_hash)


def point(name: str = "m", version: int = 1, text_hash: str = "h", vector: Vector = ONES, **fields: Any) -> Point:
    return Point(payload(name, version, text_hash, **fields), vector)


def key(name: str = "m") -> uuid.UUID:
    return embedding_id("t", name)


def found(index: VectorIndex, filters: Filters | None = None, tenant: str = "t", limit: int = 50) -> set[uuid.UUID]:
    selection = Selection(tenant=tenant, filters=filters or Filters(), alive_at=NOW)
    return {hit.embedding_id for hit in index.search("c.g1", ONES, selection, limit)}


@pytest.mark.parametrize("base", [5, EPOCH_UNIT, 3 * EPOCH_UNIT + 1, 7 * EPOCH_UNIT - 1, CEILING - 2])
def test_an_older_version_never_replaces_a_newer_one_at_any_neighbouring_pair(index: VectorIndex, base: int) -> None:
    index.upsert("c.g1", [point(version=base, text_hash="first")])
    index.upsert("c.g1", [point(version=base + 1, text_hash="newer")])
    index.upsert("c.g1", [point(version=base, text_hash="late")])
    assert index.stamps("c.g1", [key()]) == {key(): Stamp(base + 1, "newer")}
    index.delete("c.g1", {key(): base})
    assert index.count("c.g1") == 1
    index.set_payload("c.g1", [payload(version=base, text_hash="newer")])
    assert index.stamps("c.g1", [key()])[key()].version == base + 1
    index.delete("c.g1", {key(): base + 1})
    assert index.count("c.g1") == 0


def test_an_equal_version_is_written_again(index: VectorIndex) -> None:
    index.upsert("c.g1", [point(version=3, text_hash="once")])
    index.upsert("c.g1", [point(version=3, text_hash="again")])
    assert index.stamps("c.g1", [key()]) == {key(): Stamp(3, "again")}


def test_a_batch_of_mixed_versions_is_guarded_point_by_point(index: VectorIndex) -> None:
    index.upsert("c.g1", [point(str(number), version=number + 1) for number in range(10)])
    index.upsert("c.g1", [point(str(number), version=5, text_hash="five") for number in range(10)])
    versions = [index.stamps("c.g1", [key(str(number))])[key(str(number))].version for number in range(10)]
    assert versions == [5, 5, 5, 5, 5, 6, 7, 8, 9, 10]


def test_a_payload_is_replaced_whole_and_keeps_its_vector(index: VectorIndex) -> None:
    vector = np.array([1, 0, 0, 0], dtype=np.float32)
    index.upsert("c.g1", [point(vector=vector, project="old", session="s")])
    index.set_payload("c.g1", [payload(version=2, project="new")])
    assert found(index, Filters(project="new")) == {key()}
    assert not found(index, Filters(session="s"))
    np.testing.assert_allclose(index.vectors("c.g1", [key()])[key()], vector)


def test_a_payload_is_not_set_where_the_text_differs(index: VectorIndex) -> None:
    index.upsert("c.g1", [point()])
    index.set_payload("c.g1", [payload(version=2, text_hash="other")])
    assert index.stamps("c.g1", [key()]) == {key(): Stamp(1, "h")}


def test_empty_writes_do_nothing(index: VectorIndex) -> None:
    index.upsert("c.g1", [point()])
    index.upsert("c.g1", [])
    index.set_payload("c.g1", [])
    index.delete("c.g1", {})
    assert index.count("c.g1") == 1
    assert index.stamps("c.g1", []) == {}
    assert index.stamps("c.g1", [key("missing")]) == {}


@pytest.mark.parametrize("vector", [[0, 0, 0, 0], [np.nan, 1, 1, 1], [np.inf, 1, 1, 1], [1, 1, 1]])
def test_what_is_no_vector_is_refused_and_nothing_is_stored(index: VectorIndex, vector: list[float]) -> None:
    with pytest.raises(BadAnswer):
        index.upsert("c.g1", [point("good"), point("bad", vector=np.array(vector, dtype=np.float32))])
    assert index.count("c.g1") == 0


@pytest.mark.parametrize("field", ["scope", "project", "agent", "session", "role", "type"])
def test_a_filter_lets_through_its_own_value_only(index: VectorIndex, field: str) -> None:
    index.upsert("c.g1", [point(value, **{field: value}) for value in ("agent:main:1", "agent:main", "x*", "it's")])
    for value in ("agent:main:1", "agent:main", "x*", "it's"):
        assert found(index, Filters(**{field: value})) == {key(value)}


def test_hostile_tags_widen_nothing(index: VectorIndex) -> None:
    index.upsert("c.g1", [point(tag, tags=(tag, "all")) for tag in HOSTILE_TAGS])
    for tag in HOSTILE_TAGS:
        assert found(index, Filters(tags_any=(tag,))) == {key(tag)}
        assert found(index, Filters(tags_all=(tag, "all"))) == {key(tag)}
    assert not found(index, Filters(tags_all=("food", "x")))


def test_times_and_importance_bound_as_said(index: VectorIndex) -> None:
    index.upsert(
        "c.g1", [point(str(day), created_at=NOW + timedelta(days=day), importance=day / 10) for day in range(5)]
    )
    span = Filters(created_from=NOW + timedelta(days=1), created_to=NOW + timedelta(days=3))
    assert found(index, span) == {key("1"), key("2")}
    assert found(index, Filters(min_importance=0.3)) == {key("3"), key("4")}


def test_expired_points_leave_room_for_live_ones(index: VectorIndex) -> None:
    gone = [point(f"gone{number}", expires_at=NOW - timedelta(seconds=number)) for number in range(61)]
    later = [point(f"live{number}", expires_at=NOW + timedelta(seconds=1)) for number in range(2)]
    index.upsert("c.g1", [*gone, *later])
    assert found(index, limit=5) == {key("live0"), key("live1")}


def test_another_tenants_points_are_never_found(index: VectorIndex) -> None:
    index.upsert("c.g1", [point("mine"), point("theirs", tenant="other")])
    assert found(index) == {key("mine")}


def test_a_scroll_gives_every_point_once_in_order_while_writes_go_on(index: VectorIndex) -> None:
    index.upsert("c.g1", [point(str(number)) for number in range(5000)])
    seen = []
    for number, (point_id, stamp) in enumerate(index.scroll("c.g1")):
        seen.append(point_id)
        if number % 1000 == 0:
            index.upsert("c.g1", [replace(point(str(number), version=2))])
        assert stamp.version in (1, 2)
    assert seen == sorted(seen)
    assert {key(str(number)) for number in range(5000)} <= set(seen)
    assert index.count("c.g1") == 5000


def test_a_collection_that_is_not_there_is_said_so(index: VectorIndex) -> None:
    for call in (
        lambda: index.count("none"),
        lambda: index.stamps("none", [key()]),
        lambda: list(index.scroll("none")),
        lambda: index.upsert("none", [point()]),
        lambda: index.point_alias("a.live", "none", None),
    ):
        with pytest.raises(NotFound):
            call()
    index.drop("none")
    index.create("c.g1", 4)


def test_an_alias_is_set_only_over_what_was_expected(index: VectorIndex) -> None:
    index.create("c.g2", 4)
    assert index.alias("c.live") is None
    index.point_alias("c.live", "c.g1", None)
    index.point_alias("c.live", "c.g1", "c.g2")
    with pytest.raises(Conflict) as refusal:
        index.point_alias("c.live", "c.g2", None)
    assert refusal.value.details["current"] == "c.g1"
    index.point_alias("c.live", "c.g2", "c.g1")
    assert index.alias("c.live") == "c.g2"


def test_of_two_swappers_exactly_one_wins(index: VectorIndex) -> None:
    names = ["c.g2", "c.g3"]
    for name in names:
        index.create(name, 4)
    index.point_alias("c.live", "c.g1", None)
    won: list[str] = []
    start = threading.Barrier(2)

    def swap(name: str) -> None:
        start.wait(5)
        try:
            index.point_alias("c.live", name, "c.g1")
        except Conflict:
            return
        won.append(name)

    swappers = [threading.Thread(target=swap, args=(name,)) for name in names]
    for swapper in swappers:
        swapper.start()
    for swapper in swappers:
        swapper.join(10)
    assert won == [index.alias("c.live")]


def test_a_collection_an_alias_names_is_not_dropped(index: VectorIndex) -> None:
    index.point_alias("c.live", "c.g1", None)
    with pytest.raises(Conflict):
        index.drop("c.g1")
    index.create("c.g2", 4)
    index.point_alias("c.live", "c.g2", "c.g1")
    index.drop("c.g1")
    assert index.collections() == {"c.g2"}


def test_tenants_with_hostile_names_stand_side_by_side(index: VectorIndex) -> None:
    names = {tenant: collection_name(index_group(tenant), 1) for tenant in HOSTILE_TENANTS}
    for tenant, name in names.items():
        index.create(name, 4)
        index.upsert(name, [point(tenant=tenant)])
        index.point_alias(alias_name(index_group(tenant)), name, None)
    assert {name: index.count(name) for name in names.values()} == dict.fromkeys(names.values(), 1)
    assert len({name.casefold() for name in names.values()}) == len(HOSTILE_TENANTS)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["upsert", "payload", "delete"]), st.integers(0, 2), st.integers(1, 5), st.booleans()
        ),
        max_size=15,
    )
)
def test_any_order_of_writes_ends_as_the_rules_say(index: VectorIndex, steps: list[tuple[str, int, int, bool]]) -> None:
    index.delete("c.g1", {key(str(number)): CEILING - 1 for number in range(3)})
    expected: dict[uuid.UUID, Stamp] = {}
    for kind, number, version, other in steps:
        name, stamp = str(number), Stamp(version, "other" if other else "h")
        stored = expected.get(key(name))
        if kind == "upsert":
            index.upsert("c.g1", [point(name, version, stamp.text_hash)])
            if stored is None or stored.version <= version:
                expected[key(name)] = stamp
        elif kind == "payload":
            index.set_payload("c.g1", [payload(name, version, stamp.text_hash)])
            if stored is not None and stored.text_hash == stamp.text_hash and stored.version < version:
                expected[key(name)] = stamp
        else:
            index.delete("c.g1", {key(name): version})
            if stored is not None and stored.version <= version:
                del expected[key(name)]
    assert dict(index.scroll("c.g1")) == expected
