"""What every vector index does: guarded writes, filters that widen nothing, aliases that compare and set."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.adapters.qdrant_edge import EdgeIndex
from core.errors import BadAnswer, Conflict, NotFound
from core.model.names import alias_name, collection_name, index_group
from core.model.point import Stamp
from core.model.query import Filters
from core.model.version import CEILING, EPOCH_UNIT
from core.ports import VectorIndex
from tests.contract import vector_index as words
from tests.contract.fake_index import MemoryIndex
from tests.contract.qdrant_engines import LOCAL_MODE_DIFFERS, NO_SERVER, URL, local_mode, server
from tests.contract.vector_index import NOW, ONES, found, key, payload, point, refused, selection, unit, vec


def edge(root: Path) -> VectorIndex:
    """Qdrant Edge, in folders below `root`."""
    return EdgeIndex(root / "vectors", wait=timedelta(seconds=10))


def memory(_root: Path) -> VectorIndex:
    """The fake."""
    return MemoryIndex()


# Another engine joins the contract by a line here.
ENGINES = [edge, memory, local_mode, pytest.param(server, marks=pytest.mark.skipif(not URL, reason=NO_SERVER))]
pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.__name__)
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorIndex]:
    if request.param is local_mode and (reason := LOCAL_MODE_DIFFERS.get(request.node.name)):
        pytest.skip(reason)
    opened: VectorIndex = request.param(tmp_path)
    opened.create("c.g1", 4)
    yield opened
    opened.close()


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


def test_of_one_point_twice_in_a_batch_the_newest_stays(index: VectorIndex) -> None:
    index.upsert("c.g1", [point(version=9, text_hash="nine"), point(version=3), point(version=9, text_hash="again")])
    assert index.stamps("c.g1", [key()]) == {key(): Stamp(9, "again")}


@pytest.mark.parametrize("many", [600, 5000])
def test_big_batches_arrive_whole_with_versions_alike_and_apart(index: VectorIndex, many: int) -> None:
    half, most = many // 2, many // 2 - many // 50
    index.upsert("c.g1", [point(str(number), version=1) for number in range(many)])
    assert index.count("c.g1") == many
    index.upsert("c.g1", [point(str(number), version=number) for number in range(half)])
    index.set_payload("c.g1", [payload(str(number), version=many) for number in range(most)])
    stamps = index.stamps("c.g1", [key(str(number)) for number in range(many)])
    versions = [stamps[key(str(number))].version for number in range(many)]
    assert versions == [many] * most + list(range(most, half)) + [1] * half
    index.delete("c.g1", {key(str(number)): 1 + number % most for number in range(many)})
    assert index.count("c.g1") == half


def test_a_payload_is_replaced_whole_and_keeps_its_vector(index: VectorIndex) -> None:
    vector = np.array([1, 0, 0, 0], dtype=np.float32)
    index.upsert("c.g1", [point(vector=vector, project="old", session="s")])
    index.set_payload("c.g1", [payload(version=2, project="new")])
    assert found(index, Filters(project="new")) == {key()}
    assert not found(index, Filters(session="s"))
    np.testing.assert_allclose(index.vectors("c.g1", [key()])[key()], vector)


def test_a_payload_is_set_over_an_older_version_only(index: VectorIndex) -> None:
    index.upsert("c.g1", [point(version=5, project="first")])
    for version in (4, 5):
        index.set_payload("c.g1", [payload(version=version, project="late"), payload("missing", version=version)])
    assert found(index, Filters(project="first")) == {key()}
    assert index.count("c.g1") == 1
    index.set_payload("c.g1", [payload(version=6, project="newer")])
    assert found(index, Filters(project="newer")) == {key()}


def test_a_payload_is_not_set_where_the_text_differs(index: VectorIndex) -> None:
    index.upsert("c.g1", [point()])
    index.set_payload("c.g1", [payload(version=2, text_hash="other")])
    assert index.stamps("c.g1", [key()]) == {key(): Stamp(1, "h")}


def test_a_delete_takes_equal_and_older_points_and_no_others(index: VectorIndex) -> None:
    index.upsert("c.g1", [point(str(version), version=version) for version in range(1, 6)])
    index.delete("c.g1", {key(str(version)): 3 for version in range(1, 5)} | {key("missing"): 3})
    assert {point_id for point_id, _ in index.scroll("c.g1")} == {key("4"), key("5")}


def test_empty_writes_and_questions_do_nothing(index: VectorIndex) -> None:
    index.upsert("c.g1", [point()])
    index.upsert("c.g1", [])
    index.set_payload("c.g1", [])
    index.delete("c.g1", {})
    assert index.count("c.g1") == 1
    assert index.stamps("c.g1", []) == {}
    assert index.vectors("c.g1", []) == {}


def test_texts_are_found_by_their_hash_within_the_tenant(index: VectorIndex) -> None:
    many = [point(f"m{number}", vector=vec(1, number / 100, 0, 0), text_hash="same") for number in range(1, 60)]
    rare = [
        point("rare", vector=vec(0, 1, 0, 0), text_hash="rare"),
        point("last", vector=vec(0, 0, 1, 0), text_hash="zz"),
    ]
    theirs = point("theirs", vector=vec(0, 0, 0, 1), tenant="other", text_hash="theirs")
    index.upsert("c.g1", [*many, *rare, theirs])
    found = index.vectors_of_texts("c.g1", "t", ["same", "rare", "zz", "theirs", "unknown", "rare"])
    assert sorted(found) == ["rare", "same", "zz"]
    np.testing.assert_allclose(found["rare"], vec(0, 1, 0, 0), atol=1e-6)
    assert any(np.allclose(found["same"], unit(one.vector, 4), atol=1e-5) for one in many)
    assert index.vectors_of_texts("c.g1", "other", ["same", "theirs"]).keys() == {"theirs"}
    assert index.vectors_of_texts("c.g1", "t", []) == {}


def test_of_points_asked_for_by_id_those_that_are_there_are_told(index: VectorIndex) -> None:
    index.upsert("c.g1", [point(version=4, vector=vec(3, 0, 0, 4))])
    asked = [key("missing"), key(), key("gone")]
    assert index.stamps("c.g1", asked) == {key(): Stamp(4, "h")}
    ((found_key, vector),) = index.vectors("c.g1", asked).items()
    assert (found_key, vector.dtype) == (key(), np.float32)
    np.testing.assert_allclose(vector, [0.6, 0, 0, 0.8], rtol=1e-6)
    assert index.payloads("c.g1", asked) == {key(): point(version=4).payload.fields}


def test_what_is_no_vector_is_refused_and_nothing_is_stored(index: VectorIndex) -> None:
    good = [point(f"good{number}", version=1 + number % 3) for number in range(1500)]
    for bad in (vec(0, 0, 0, 0), vec(np.nan, 1, 1, 1), vec(np.inf, 1, 1, 1), vec(1, 1, 1), vec(1, 1, 1, 1, 1), vec()):
        with pytest.raises(BadAnswer):
            index.upsert("c.g1", [*good, point("bad", version=9, vector=bad)])
        assert index.count("c.g1") == 0, bad
        with pytest.raises(BadAnswer):
            index.search("c.g1", bad, selection(), 5)


def test_a_direction_counts_at_any_length(index: VectorIndex) -> None:
    for length in (1e-40, 1e-30, 1e-3, 1e30, 1e38):
        vector = ONES * np.float32(length)
        index.upsert("c.g1", [point(vector=vector)])
        np.testing.assert_allclose(index.vectors("c.g1", [key()])[key()], ONES / 2, rtol=1e-4)
        assert index.search("c.g1", vector, selection(), 1)[0].score == pytest.approx(1)


def test_hits_come_nearest_first_with_their_cosine(index: VectorIndex) -> None:
    near, middle, far, opposite = (1, 0, 0, 0), (1, 1, 0, 0), (0, 0, 0, 5), (-2, 0, 0, 0)
    for name, values in {"far": far, "near": near, "opposite": opposite, "middle": middle}.items():
        index.upsert("c.g1", [point(name, vector=vec(*values))])
    hits = index.search("c.g1", vec(7, 0, 0, 0), selection(), 10)
    assert [hit.embedding_id for hit in hits] == [key(name) for name in ("near", "middle", "far", "opposite")]
    assert [hit.score for hit in hits] == pytest.approx([1, 0.5**0.5, 0, -1], abs=1e-6)
    assert index.search("c.g1", vec(7, 0, 0, 0), selection(), 2) == hits[:2]


@pytest.mark.parametrize("field", ["scope", "project", "agent", "session", "role", "type"])
def test_a_filter_lets_through_its_own_value_only(index: VectorIndex, field: str) -> None:
    index.upsert("c.g1", [point(value, **{field: value}) for value in ("agent:main:1", "agent:main", "x*", "it's")])
    for value in ("agent:main:1", "agent:main", "x*", "it's"):
        assert found(index, Filters(**{field: value})) == {key(value)}


def test_hostile_tags_widen_nothing(index: VectorIndex) -> None:
    index.upsert("c.g1", [point(tag, tags=(tag, "all")) for tag in words.HOSTILE_TAGS])
    for tag in words.HOSTILE_TAGS:
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
    index.upsert("c.g1", [point("mine", tags=("a",)), point("theirs", tenant="other", tags=("a", "b"), project="p")])
    assert found(index) == found(index, Filters(tags_any=("a", "b"))) == {key("mine")}
    assert not found(index, Filters(tags_all=("b",)))
    assert not found(index, Filters(project="p"))
    assert found(index, tenant="other") == {key("theirs", "other")}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(words.FIELDS, min_size=1, max_size=30), st.lists(words.FILTERS, min_size=1, max_size=8))
def test_a_search_finds_exactly_what_its_filters_mean(
    index: VectorIndex, kept: list[dict[str, Any]], asked: list[Filters]
) -> None:
    index.delete("c.g1", {point_id: CEILING - 1 for point_id, _ in index.scroll("c.g1")})
    points = [point(f"n{number}", **fields) for number, fields in enumerate(kept)]
    index.upsert("c.g1", points)
    for filters in asked:
        meant = {item.payload.embedding_id for item in points if words.meets(item.payload.fields, selection(filters))}
        assert found(index, filters) == meant


def test_a_scroll_gives_every_point_once_in_order_while_writes_go_on(index: VectorIndex) -> None:
    index.upsert("c.g1", [point(str(number)) for number in range(5000)])
    seen = []
    for number, (point_id, stamp) in enumerate(index.scroll("c.g1")):
        seen.append(point_id)
        if len(seen) in (1, 1000, 2000, 3000, 4000):
            index.upsert("c.g1", [point(str(number), version=2), point(f"new{number}")])
        assert stamp.version in (1, 2)
    assert seen == sorted(seen)
    assert {key(str(number)) for number in range(5000)} <= set(seen)
    assert len(seen) == len(set(seen))
    assert index.count("c.g1") == 5005


def test_a_scroll_can_begin_at_any_id_there_or_not(index: VectorIndex) -> None:
    index.upsert("c.g1", [point(str(number)) for number in range(50)])
    ids = [point_id for point_id, _ in index.scroll("c.g1")]
    between = uuid.UUID(int=ids[20].int + 1)
    for start, left in ((ids[0], ids), (ids[20], ids[20:]), (between, ids[21:]), (uuid.UUID(int=2**128 - 1), [])):
        assert [point_id for point_id, _ in index.scroll("c.g1", start)] == left


def test_a_collection_made_twice_keeps_its_points(index: VectorIndex) -> None:
    index.upsert("c.g1", [point()])
    index.create("c.g1", 4)
    assert index.collections() == {"c.g1"}
    assert index.count("c.g1") == 1


def test_a_collection_that_is_not_there_is_said_so(index: VectorIndex) -> None:
    calls: list[Callable[[str], object]] = [
        index.count,
        lambda name: index.stamps(name, [key()]),
        lambda name: index.vectors(name, [key()]),
        lambda name: list(index.scroll(name)),
        lambda name: index.search(name, ONES, selection(), 5),
        lambda name: index.upsert(name, [point()]),
        lambda name: index.set_payload(name, [payload()]),
        lambda name: index.delete(name, {key(): 1}),
        lambda name: index.point_alias("a.live", name, None),
    ]
    index.create("c.g2", 4)
    index.upsert("c.g2", [point()])
    index.drop("c.g2")
    for name in ("none", "c.g2"):
        for call in calls:
            with pytest.raises(NotFound):
                call(name)
        index.drop(name)
    assert index.alias("a.live") is None
    assert index.collections() == {"c.g1"}


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
    index.create("c.g2", 4)
    index.create("c.g3", 4)
    for number in range(10):
        index.point_alias(f"c{number}.live", "c.g1", None)
        swap = partial(index.point_alias, f"c{number}.live", expected="c.g1")
        lost = refused(partial(swap, "c.g2"), partial(swap, "c.g3"))
        assert sorted(lost) == [False, True]
        assert index.alias(f"c{number}.live") == ["c.g2", "c.g3"][lost.index(False)]


def test_searches_through_an_alias_never_fail_while_it_is_swapped(index: VectorIndex) -> None:
    names = ["c.g1", "c.g2"]
    index.create("c.g2", 4)
    for name in names:
        index.upsert(name, [point(name)])
    index.point_alias("c.live", "c.g1", None)
    done = threading.Event()

    def searched() -> int:
        count = 0
        while not done.is_set() or not count:
            name = index.alias("c.live")
            assert name is not None
            assert [hit.embedding_id for hit in index.search(name, ONES, selection(), 5)] == [key(name)]
            count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        searchers = [pool.submit(searched) for _ in range(3)]
        try:
            for swap in range(50):
                index.point_alias("c.live", names[(swap + 1) % 2], names[swap % 2])
        finally:
            done.set()
        assert all(searcher.result(20) for searcher in searchers)
    assert index.alias("c.live") == "c.g1"


def test_a_collection_an_alias_names_is_not_dropped(index: VectorIndex) -> None:
    index.point_alias("c.live", "c.g1", None)
    with pytest.raises(Conflict):
        index.drop("c.g1")
    index.create("c.g2", 4)
    index.point_alias("c.live", "c.g2", "c.g1")
    index.drop("c.g1")
    assert index.collections() == {"c.g2"}


def test_of_a_drop_and_an_alias_at_once_one_is_refused(index: VectorIndex) -> None:
    for name in ("c.g2", "c.g3", "c.g4"):
        index.create(name, 4)
        alias = f"{name}.live"
        lost = refused(partial(index.drop, name), partial(index.point_alias, alias, name, None))
        assert sorted(lost) == [False, True]
        assert (index.alias(alias) is None) == (name not in index.collections())


def test_tenants_with_hostile_names_stand_side_by_side(index: VectorIndex) -> None:
    names = {tenant: collection_name(index_group(tenant), 1) for tenant in words.HOSTILE_TENANTS}
    assert len({name.casefold() for name in names.values()}) == len(words.HOSTILE_TENANTS) >= 30
    for tenant, name in names.items():
        index.create(name, 4)
        index.point_alias(alias_name(index_group(tenant)), name, None)
    assert index.collections() == {*names.values(), "c.g1"}
    for tenant, name in names.items():
        assert index.alias(alias_name(index_group(tenant))) == name
        index.upsert(name, [point(tenant=tenant)])
        assert [point_id for point_id, _ in index.scroll(name)] == [key(tenant=tenant)]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(words.WRITES, max_size=12))
def test_any_order_of_writes_ends_as_the_rules_say(index: VectorIndex, steps: list[words.Write]) -> None:
    index.delete("c.g1", {key(str(number)): CEILING - 1 for number in range(4)})
    expected: dict[uuid.UUID, Stamp] = {}
    for kind, items in steps:
        if kind == "upsert":
            index.upsert("c.g1", [point(*item) for item in items])
        elif kind == "payload":
            index.set_payload("c.g1", [payload(*item) for item in items])
        else:
            index.delete("c.g1", {key(name): version for name, version, _ in items})
        expected = words.after(expected, kind, items)
    assert dict(index.scroll("c.g1")) == expected
    assert index.count("c.g1") == len(expected)
